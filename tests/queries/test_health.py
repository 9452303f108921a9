"""What the figures of a trace rest on: the parts that ingest and the device events can know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traces_by_hand import call as launch
from traces_by_hand import kernel, span

import tracekit

Write = Callable[..., Path]
FIRST = (
    "implausible_records",
    "rejected", "repaired", "truncated", "rank_unknown", "duplicate_ranks", "missing_ranks",
    "device_events", "device_time_linked", "unlinked_device_events", "device_time_classified",
    "zero_duration_device_events", "same_stream_overlaps", "started_before_launch_returned",
    "unfinished_ops", "profiler_overhead",
)  # fmt: skip


def told(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Value, unit and severity of each metric of a trace."""
    assert [row["metric"] for row in rows][: len(FIRST)] == list(FIRST)
    return {row["metric"]: (row["value"], row["unit"], row["severity"]) for row in rows}


def explained(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["metric"]: row["meaning"] for row in rows}


def health(path: Path) -> list[dict[str, Any]]:
    """What is said of a trace that is alone."""
    with tracekit.open(path, cache=False) as trace:
        return trace.health().to_dicts()


def test_everything_that_can_be_wrong(tiny_trace: Write) -> None:
    events = [
        launch(0, 5, 1),
        kernel("ampere_sgemm_128x64_tn", 3, 8, 1),  # Starts before its launch returns.
        kernel("what is this", 7, 9, 99),  # On the same stream before the first ends; no launch.
        kernel("what is this", 7, 10, 0, stream=8),  # Correlation 0 is no link.
        kernel("what is this", 12, 12, 98),
        span("cpu_op", "aten::mm", 0, 20, finished="false"),
        span("cpu_op", "aten::mm", 0, 20, finished=False),
        span("cpu_op", "aten::mm", 0, 20, finished="true"),
        span("overhead", "Lazy Function Loading", 0, 1.5),
        span("overhead", "Buffer Flush", 3, 4),
    ]
    text = (
        json.dumps(events)[1:-1] + ', 5, {"ph": "X", "name": "a"b", "ts": 1, "dur": 1}, {"ph": "X"'
    )
    path = tiny_trace(f'{{"distributedInfo": {{"world_size": 4}}, "traceEvents": [{text}')
    found = told(health(path))
    assert {metric: row for metric, row in found.items() if metric in FIRST} == {
        "implausible_records": (0, "count", "ok"),
        "rejected": (2, "count", "warn"),
        "repaired": (1, "count", "note"),
        "truncated": (1, "count", "warn"),
        "rank_unknown": (1, "count", "note"),
        "duplicate_ranks": (None, "count", "ok"),
        "missing_ranks": (4, "count", "note"),
        "device_events": (4, "count", "ok"),
        "device_time_linked": (50, "pct", "warn"),
        "unlinked_device_events": (3, "count", "note"),
        "device_time_classified": (50, "pct", "note"),
        "zero_duration_device_events": (1, "count", "note"),
        "same_stream_overlaps": (1, "count", "note"),
        "started_before_launch_returned": (1, "count", "ok"),
        "unfinished_ops": (2, "count", "note"),
        "profiler_overhead": (2500, "ns", "note"),
    }


def test_what_was_cut_off_is_said(tiny_trace: Write) -> None:
    path = tiny_trace(json.dumps([kernel("k", 0, 1, 1)])[:-1])
    assert explained(health(path))["truncated"] == "the file ends inside the array of events"


def test_the_same_as_the_facade(tiny_trace: Write) -> None:
    with tracekit.open(tiny_trace([kernel("k", 0, 1, 1)]), cache=False) as trace:
        assert trace.health() == trace.query("health")
        assert trace.health().column_names == (
            "rank", "metric", "value", "unit", "severity", "meaning",
        )  # fmt: skip


def test_paths_of_modules_in_thousands_of_others_are_cut(tiny_trace: Write) -> None:
    """Each of 3,000 has one kernel; what is cut is said, and the sums stay whole."""
    count = 3000
    events = []
    for number in range(count):
        at = 10 * number
        name = f"nn.Module: Block_{number}"
        events += [
            span("python_function", name, at, 10 * (2 * count - number)),
            launch(at + 2, at + 5, number),
            kernel("gemm", at + 6, at + 8, number),
        ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        rows = trace.query("modules").to_dicts()
        (cut,) = [row for row in trace.health().to_dicts() if row["metric"] == "cut_module_paths"]
    by_depth = {row["depth"]: row for row in rows}
    # Correlation 0 stands for none.
    assert [by_depth[depth]["total_wall_ns"] for depth in (1, 1500, 2999)] == [
        2000 * 2999,
        2000 * 1500,
        2000,
    ]
    assert len({row["module_path"] for row in rows}) == len(rows)
    whole = [row for row in rows if "…" not in row["module_path"]]
    assert (cut["value"], cut["severity"]) == (len(rows) - len(whole), "note")
    assert all(
        row["module_path"].endswith(f"/Block_{row['depth']}") for row in rows if row["depth"]
    )
    assert max(len(row["module_path"]) for row in rows) < 2100
