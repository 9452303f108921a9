"""Analysis kernel_sequences: which kernels follow each other, under which op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases_as_ranks import AskedByRank, Cases
from every_trace import Answered, on_some_traces
from traces_by_hand import span, work

CASES = Cases()
asked = CASES.fixture()

# Two layers that launch a and b, in an op of their own and without one; then a alone, in no op.
LAYERS = CASES.add(
    [
        span("cpu_op", "layer", 0, 10),
        span("cpu_op", "inner", 1, 4),
        *work(2, 20, 23, 1, "a"),
        *work(5, 23, 24, 2, "b"),
        span("cpu_op", "layer", 10, 20),
        *work(12, 30, 32, 3, "a"),
        *work(15, 32, 33, 4, "b"),
        *work(21, 40, 41, 5, "a"),
    ]
)


def rows(asked: AskedByRank, **params: Any) -> list[tuple[Any, ...]]:
    names = ("op", "kernels", "sequence_count", "kernel_ns", "host_ns")
    found = asked.rows(LAYERS, "kernel_sequences", **params)
    return [tuple(row[name] for name in names) for row in found]


def test_what_calls_launched(asked: AskedByRank) -> None:
    assert rows(asked) == [("layer", ["a", "b"], 2, 7_000, 20_000)]
    assert rows(asked, op="inner", min_length=1) == [("inner", ["a"], 1, 3_000, 3_000)]
    assert rows(asked, op="inner") == []


def test_sequences_of_a_length(asked: AskedByRank) -> None:
    assert rows(asked, length=2) == [
        (None, ["a", "b"], 2, 7_000, None),
        (None, ["b", "a"], 2, 5_000, None),
    ]
    assert rows(asked, length=2, op="layer") == [("layer", ["a", "b"], 2, 7_000, None)]


@on_some_traces
def test_sequences_of_one_are_all_that_ran(answered: Answered, path: Path) -> None:
    ask = answered(path)
    sequences = ask("kernel_sequences", length=1, min_length=1, limit=0).to_dicts()
    kernels = ask("kernels", limit=0).to_dicts()
    assert sum(row["kernel_ns"] for row in sequences) == sum(row["kernel_ns"] for row in kernels)
