"""Analysis counters_by_op: counters of CUPTI's profiler, by the ops that launched the kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import Event, call, span

import tracekit


def counted(at: float, name: str, reads: float, writes: float = 0) -> Event:
    args = {"reads.sum": reads, "it's": writes}
    return {**span("cuda_profiler_range", name, at, at + 1, 0, pid=3), "args": args}


HOST = [
    span("cpu_op", "aten::linear", 0, 50),
    span("cpu_op", "aten::addmm", 0, 40),
    call(10, 11, 1),
    call(15, 16, 2, "cudaMemcpyAsync"),
    call(20, 21, 3, "cudaLaunchKernelExC"),
    span("cpu_op", "aten::relu", 60, 70),
    call(61, 62, 4),
    call(80, 81, 5),
]


@pytest.fixture
def counters(tiny_trace: Callable[..., Path]) -> Callable[[list[Event]], Any]:
    """Return the rows of the counter of reads of two traces with the same events."""

    def rows(events: list[Event]) -> Any:
        paths = [tiny_trace(events, f"rank{rank}.json") for rank in range(2)]
        with tracekit.open(*paths, cache=False) as trace:
            found = trace.query("counters_by_op").to_dicts()
        keys = ("top_op", "op", "kernel", "kernel_count", "total", "reason")
        assert {(row["device"], row["counter"]) for row in found} == {
            ("3", "reads.sum"),
            ("3", "it's"),
        }
        ranks = [
            [
                tuple(row[key] for key in keys)
                for row in found
                if row["rank"] == rank and row["counter"] == "reads.sum"
            ]
            for rank in range(2)
        ]
        assert ranks[0] == ranks[1]
        return ranks[0]

    return rows


def test_the_first_range_is_that_of_the_first_launch(
    counters: Callable[[list[Event]], Any],
) -> None:
    ranges = [counted(103, "late", 7), counted(100, "gemm", 1), counted(101, "gemm", 2)]
    assert counters([*HOST, *ranges, counted(102, "relu", 4)]) == [
        (None, None, "late", 1, 7, None),
        ("aten::relu", "aten::relu", "relu", 1, 4, None),
        ("aten::linear", "aten::addmm", "gemm", 2, 3, None),
    ]


def test_no_op_where_the_numbers_differ(counters: Callable[[list[Event]], Any]) -> None:
    reason = "not as many launches of kernels as ranges of the profiler"
    assert counters([*HOST, counted(100, "all", 9)]) == [(None, None, "all", 1, 9, reason)]
