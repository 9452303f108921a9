"""Compares your runs with the published results of the paper that tracekit follows.

The paper is "Dissecting the Runtime Performance of the Training, Fine-tuning, and Inference of
Large Language Models", arXiv 2311.03687v2. Each table is one TOML file, and so is each figure for
which the text gives numbers or names curves. Values are copied as printed; an impossible cell is
marked with the reason, never corrected.

`tables` reads these files, `runs` finds your runs, `measures` computes the same values from your
manifests and traces, and `comparison` matches the two. `bench_figures` does all of this for
microbenchmarks, whose curves have no numbers in the paper.
"""
