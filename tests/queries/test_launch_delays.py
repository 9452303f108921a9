"""Analyses launch_delays, launch_outliers, queue_length and short_kernels, worked out on paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from traces_by_hand import Event, kernel, span

import tracekit


def call(name: str, start: float, end: float, correlation: int) -> Event:
    return span("cuda_runtime", name, start, end, correlation=correlation)


EVENTS = [
    span("cpu_op", "aten::mul", 0, 20),
    call("cudaLaunchKernel", 1, 11, 1),  # 10 µs; delay 9 µs
    kernel("vectorized_elementwise_kernel", 20, 24, 1),  # 4 µs: shorter than its call
    call("cudaLaunchKernel", 30, 110, 2),  # 80 µs: a long call
    kernel("vectorized_elementwise_kernel", 100, 150, 2),  # begins 10 µs before the call is back
    call("cudaLaunchKernel", 111, 113, 3),  # delay 187 µs: a long one
    kernel("ampere_sgemm_64x64", 300, 320, 3),
    call("cudaGraphLaunch", 301, 306, 4),  # delays 14 and 26 µs
    kernel("vectorized_elementwise_kernel", 320, 322, 4),
    kernel("vectorized_elementwise_kernel", 332, 334, 4),
    kernel("vectorized_elementwise_kernel", 400, 401, 99),  # no launch in the file
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracekit.Trace]:
    path = tmp_path_factory.mktemp("launches") / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}), "utf-8")
    with tracekit.open(path, cache=False) as opened:
        yield opened


def test_delays_by_call(trace: tracekit.Trace) -> None:
    kernels, graphs = trace.query("launch_delays").to_dicts()
    assert kernels == {
        "rank": None,
        "device": "0",
        "launch": "cudaLaunchKernel",
        "launch_count": 3,
        "kernel_count": 3,
        "launch_ns": 92_000,
        "mean_launch_ns": 92_000 / 3,
        "max_launch_ns": 80_000,
        "long_call_count": 1,
        "mean_delay_ns": (9_000 + 0 + 187_000) / 3,
        "median_delay_ns": 9_000,
        "p99_delay_ns": 187_000,
        "max_delay_ns": 187_000,
        "long_delay_count": 1,
        "short_count": 2,
        "started_early_count": 1,
    }
    assert graphs["launch"] == "cudaGraphLaunch"
    assert (graphs["launch_count"], graphs["kernel_count"]) == (1, 2)
    assert graphs["launch_ns"] == 5_000
    assert graphs["mean_delay_ns"] == 20_000
    assert (graphs["median_delay_ns"], graphs["p99_delay_ns"]) == (14_000, 26_000)
    assert graphs["short_count"] == 2


def test_what_counts_as_long_can_be_set(trace: tracekit.Trace) -> None:
    rows = trace.query("launch_delays", long_call_ns=9_999, long_delay_ns=8_999).to_dicts()
    assert [row["long_call_count"] for row in rows] == [2, 0]
    assert [row["long_delay_count"] for row in rows] == [2, 2]


def test_outliers(trace: tracekit.Trace) -> None:
    (longest,) = trace.query("launch_outliers", limit=1).to_dicts()
    assert longest == {
        "rank": None,
        "device": "0",
        "stream": 7,
        "start_ns": 111_000,
        "launch": "cudaLaunchKernel",
        "launch_ns": 2_000,
        "delay_ns": 187_000,
        "kernel": "ampere_sgemm_64x64",
        "kernel_ns": 20_000,
        "op": None,
        "module": None,
    }
    calls = trace.query("launch_outliers", by="call").to_dicts()
    assert [row["launch_ns"] for row in calls] == [80_000, 10_000, 5_000, 5_000, 2_000]
    assert [row["delay_ns"] for row in calls] == [-10_000, 9_000, 14_000, 26_000, 187_000]
    assert calls[1]["op"] == "aten::mul"
    assert trace.query("launch_outliers", min_delay_ns=20_000).column("delay_ns") == [
        187_000,
        26_000,
    ]
    assert trace.query("launch_outliers", min_call_ns=10_000).column("launch_ns") == [
        10_000,
        80_000,
    ]


def test_queue_length(trace: tracekit.Trace) -> None:
    (row,) = trace.query("queue_length").to_dicts()
    # Queued: 1 to 20, 30 to 100, 111 to 300, and the graph's two from 301 to 320 and 332.
    queued_us = 19 + 70 + 189 + 2 * 19 + 12
    assert row == {
        "rank": None,
        "device": "0",
        "stream": 7,
        "kernel_count": 5,
        "span_ns": 331_000,
        "mean_length": queued_us / 331,
        "max_length": 2,
        "empty_ns": (10 + 11 + 1) * 1_000,
        "empty_pct": 100 * 22 / 331,
        "over_1000_ns": 0,
    }


def test_short_kernels(trace: tracekit.Trace) -> None:
    every, short, *listed = trace.query("short_kernels").to_dicts()
    # The window is 20 to 401, 381 µs; busy are 4 + 50 + 20 + 2 + 2 + 1 = 79.
    assert every["name"] == "(all kernels)"
    assert (every["kernel_count"], every["kernel_ns"], every["idle_ns"]) == (6, 79_000, 302_000)
    # Of the 5 with a launch, 4 are shorter than their call.
    assert (every["launch_bound_count"], every["launch_bound_pct"]) == (4, 80)
    # Shorter than 10 µs: 4, 2, 2 and 1 µs, with gaps of 0, 0, 10 and 66 µs before them.
    assert short == {
        "rank": None,
        "device": "0",
        "name": "(all short kernels)",
        "class": None,
        "kernel_count": 4,
        "kernel_count_pct": 100 * 4 / 6,
        "kernel_ns": 9_000,
        "wall_ns": 9_000,
        "wall_pct": 100 * 9 / 381,
        "mean_ns": 2_250,
        "idle_ns": 76_000,
        "idle_pct": 100 * 76 / 381,
        "launch_ns": 15_000,
        "launch_bound_count": 3,
        "launch_bound_pct": 100,
    }
    assert listed == [short | {"name": "vectorized_elementwise_kernel", "class": "elementwise"}]


def test_no_short_kernel_but_the_sum_of_all(trace: tracekit.Trace) -> None:
    rows = trace.query("short_kernels", max_kernel_ns=1).to_dicts()
    assert [row["name"] for row in rows] == ["(all kernels)"]


def test_cpu_work_has_no_launches(tiny_trace: Callable[..., Path]) -> None:
    path = tiny_trace([span("cpu_op", "aten::mul", 0, 20), span("cpu_op", "aten::mm", 30, 99)])
    with tracekit.open(path, cache=False) as trace:
        assert trace.query("launch_delays").rows == []
        assert trace.query("launch_outliers").rows == []
        assert trace.query("queue_length").rows == []
        every, *_ = trace.query("short_kernels").to_dicts()
    assert every["launch_bound_pct"] is None
    assert every["kernel_count"] == 2


def test_the_queue_over_time_is_that_of_queue_length(trace: tracekit.Trace) -> None:
    (whole,) = trace.query("queue_length").to_dicts()
    first, second = trace.query("queue_over_time", points=2).to_dicts()
    # Queued from 1 to 20, 30 to 100, 111 to 300, 301 to 320 and 332 µs; cut at 166.5 µs.
    assert first == {
        "rank": None,
        "device": "0",
        "stream": 7,
        "start_ns": 1_000,
        "dur_ns": 165_500,
        "mean_length": (19 + 70 + 55.5) / 165.5,
        "max_length": 1,
    }
    assert (second["start_ns"], second["dur_ns"], second["max_length"]) == (166_500, 165_500, 2)
    assert second["mean_length"] == pytest.approx((133.5 + 19 + 31) / 165.5)
    for points in (1, 7, 120, 1_000_000):
        rows = trace.query("queue_over_time", points=points).to_dicts()
        assert sum(row["dur_ns"] for row in rows) == whole["span_ns"]
        assert max(row["max_length"] for row in rows) == whole["max_length"]
        area = sum(row["mean_length"] * row["dur_ns"] for row in rows)
        assert area == pytest.approx(whole["mean_length"] * whole["span_ns"])
