"""Analysis kernel_sequences: which kernels follow each other, under which op."""

from __future__ import annotations

from pathlib import Path

from every_trace import Answered, on_some_traces


@on_some_traces
def test_sequences_of_one_are_all_that_ran(answered: Answered, path: Path) -> None:
    ask = answered(path)
    sequences = ask("kernel_sequences", length=1, min_length=1, limit=0).to_dicts()
    kernels = ask("kernels", limit=0).to_dicts()
    assert sum(row["kernel_ns"] for row in sequences) == sum(row["kernel_ns"] for row in kernels)
