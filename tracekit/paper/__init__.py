"""Published figures of the paper that tracekit follows, and figures of your runs next to them.

The figures are those of «Dissecting the Runtime Performance of the Training, Fine-tuning, and
Inference of Large Language Models», arXiv 2311.03687v2: one TOML file per table, and one for each
figure whose text has numbers or names its curves. They are copied as printed; an impossible cell is
marked with the reason, never corrected.

`tables` reads them, `runs` finds our runs, `measures` computes the same figures from our manifests
and traces, and `comparison` matches the two; `bench_figures` does so for microbenchmarks, whose
curves have no numbers.
"""
