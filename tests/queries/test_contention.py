"""Analysis contention: how much longer kernels take beside other work of their device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from traces_by_hand import Event, kernel

import tracekit

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
GEMM = "ampere_sgemm_128x64_nn"


def one(start: float, end: float, name: str = GEMM, grid: object = (8, 1, 1)) -> Event:
    return kernel(name, start, end, grid=grid, block=[128, 1, 1])


def test_kernels_beside_an_all_reduce_on_paper(tiny_trace: Callable[..., Path]) -> None:
    """Of 100 µs alone: 110 with 40 µs of an all-reduce beside it, 120 with 50."""
    events = [
        *(one(start, start + 100) for start in (0, 200, 400)),
        kernel(ALL_REDUCE, 670, 760, stream=20),
        one(600, 710),
        one(710, 830),
        # Beside both an all-reduce and another kernel.
        kernel(ALL_REDUCE, 1000, 1100, stream=20),
        one(1000, 1200),
        kernel("ampere_sgemm_64x64_tn", 1000, 1010, stream=9),
        # No work that is always the same: times alone differ, or the grid is not told.
        *(
            one(start, start + took, grid=[9, 1, 1])
            for start, took in ((1300, 9), (1400, 50), (1500, 99))
        ),
        *(one(start, start + 10, grid=None) for start in (1600, 1700, 1800)),
        kernel(ALL_REDUCE, 2000, 2100, stream=20),
        one(2000, 2020, grid=[9, 1, 1]),
        one(2020, 2050, grid=None),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        (row,) = trace.query("contention").to_dicts()
    assert row["beside"] == "comm"
    assert (row["extra_ns"], row["overlap_ns"]) == (30_000, 90_000)
    assert row["slope_pct"] == pytest.approx(100 / 3)
    assert (row["kind_count"], row["kernel_count"], row["alone_count"]) == (1, 2, 3)
    # 40 and 50 µs of these, 100 and 10 of the two at once, 20 and 30 of those that are not alike.
    assert row["compared_pct"] == pytest.approx(100 * 90 / 250)


def test_kernels_beside_each_other(tiny_trace: Callable[..., Path]) -> None:
    """Of 100 µs alone, 160 on either of two streams at once."""
    events = [
        *(one(start, start + 100) for start in (0, 200, 400)),
        one(600, 760),
        one(600, 760) | {"tid": 9, "args": one(0, 1)["args"] | {"stream": 9}},
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        (row,) = trace.query("contention").to_dicts()
    assert (row["beside"], row["kernel_count"]) == ("compute", 2)
    assert row["slope_pct"] == pytest.approx(100 * 120 / 320)
