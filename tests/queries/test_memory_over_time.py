"""Analysis memory_over_time: the most memory in use in each part of the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tracekit


def allocated(at: float, allocated_bytes: int, reserved_bytes: int, **place: int) -> dict[str, Any]:
    args = {
        "Addr": 1,
        "Bytes": 1,
        "Total Allocated": allocated_bytes,
        "Total Reserved": reserved_bytes,
        "Device Type": 1,
        "Device Id": 0,
    }
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1}
    return {**event, "ts": at, "args": {**args, **place}}


def test_the_most_of_each_part_and_what_was_kept_then(tiny_trace: Callable[..., Path]) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 99},
        allocated(10, 100, 1_000),
        allocated(20, 300, 1_000),
        allocated(25, 200, 2_000),
        allocated(80, 250, 2_000),
        allocated(15, 7, 0, **{"Device Type": 0, "Device Id": -1}),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        rows = trace.query("memory_over_time", points=2).to_dicts()
    keys = ("device", "at_ns", "allocated_bytes", "reserved_bytes", "event_count")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("0", 20_000, 300, 1_000, 3),
        ("0", 80_000, 250, 2_000, 1),
        ("cpu", 15_000, 7, 0, 1),
    ]


def test_the_highest_of_all_is_always_there(public_traces: Path, opened: Any) -> None:
    trace = opened(public_traces / "tl_h100_qwen.json.gz")
    (peak,) = trace.sql("SELECT max(total_allocated_bytes) AS peak FROM memory").column("peak")
    for points in (1, 7, 1_000):
        rows = trace.query("memory_over_time", points=points)
        assert max(rows.column("allocated_bytes")) == peak
