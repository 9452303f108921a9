"""Analysis hta_idle: HTA's three classes of idle time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from traces_by_hand import span

import tracekit


def pair(correlation: int, launch: float, start: float, end: float, stream: int) -> list[Any]:
    args = {"correlation": correlation, "stream": stream, "device": 0}
    return [
        span("cuda_runtime", "cudaLaunchKernel", launch, launch + 1, correlation=correlation),
        span("kernel", f"k{correlation}", start, end, **args) | {"pid": 0, "tid": stream},
    ]


def test_each_stream_by_itself(tiny_trace: Callable[..., Path]) -> None:
    events = [
        *pair(1, 0, 10, 20, 7),
        *pair(2, 1, 50, 60, 7),  # queued, 30 µs after: other
        *pair(3, 70, 75, 80, 7),  # launched behind the end: host_wait, 15 µs
        *pair(4, 71, 82, 90, 7),  # queued, 2 µs after: kernel_wait
        *pair(5, 72, 88, 95, 7),  # overlaps: -2 µs, kernel_wait
        *pair(6, 3, 15, 55, 8),  # the only one of its stream
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        result = trace.query("hta_idle")
        wide = trace.query("hta_idle", kernel_delay_ns=30_001)
    assert [row[2:6] for row in result.rows] == [
        (7, "host_wait", 1, 15_000),
        (7, "kernel_wait", 2, 0),
        (7, "other", 1, 30_000),
    ]
    assert sum(result.column("idle_pct")) == 100
    assert [row[3:6] for row in wide.rows] == [
        ("host_wait", 1, 15_000),
        ("kernel_wait", 3, 30_000),
    ]
