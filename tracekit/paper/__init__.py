"""The published figures of the paper that tracekit follows, and ours beside them.

The figures are those of «Dissecting the Runtime Performance of the Training, Fine-tuning, and
Inference of Large Language Models», arXiv 2311.03687v2: one TOML file per table, and one for each
figure whose text states numbers or names its curves. They are carried over as printed; a cell that
cannot be right is marked with the reason, never corrected.

`tables` reads them, `runs` knows our runs, `measures` takes the same figures from our manifests and
traces, `comparison` puts the two beside each other; `bench_figures` does so for the figures of
microbenchmarks, whose curves have no numbers.
"""
