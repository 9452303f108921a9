"""Compares runs with the results of the paper that tracekit follows.

The paper is "Dissecting the Runtime Performance of the Training, Fine-tuning, and Inference of
Large Language Models", arXiv 2311.03687v2. Each table is one TOML file. So is each figure whose
numbers or curves the text describes. Values are copied as printed; an impossible cell is marked
with the reason, never corrected.

`tables` reads these files, `runs` finds the user's runs, `measures` computes the same values from
their manifests and traces, and `comparison` matches the two. `bench_figures` does all of this for
microbenchmarks, whose curves have no numbers in the paper.
"""
