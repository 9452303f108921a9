"""Charts of rows in which what a trace may not tell is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from traces_by_hand import kernel, span

import tracekit
from tracekit.analysis.result import Result
from tracekit.plot import find_chart

REPO = Path(__file__).resolve().parents[2]


def without(result: Result, column: str, named: str) -> Result:
    """Return a result whose first row that has something for `named` has nothing for `column`."""
    place, has = (result.column_names.index(name) for name in (column, named))
    at = next(at for at, row in enumerate(result.rows) if row[has] is not None)
    row = result.rows[at]
    rows = [*result.rows]
    rows[at] = (*row[:place], None, *row[place + 1 :])
    return dataclasses.replace(result, rows=rows)


def test_ops_of_known_size_whose_types_are_not_recorded(
    opened: Callable[[Path], tracekit.Trace],
) -> None:
    trace = opened(REPO / "docs" / "samples" / "made_up_step.json")
    data = {name: trace.query(name) for name in ("compute_memory", "roofline")}
    data["compute_memory"] = without(data["compute_memory"], "dtype", "flop_per_s")
    chart = find_chart("gemms").chart(data)
    assert chart is not None


def test_what_a_manifest_may_leave_out() -> None:
    with tracekit.open(REPO / "sample_traces", traces=False, cache=False) as runs:
        methods = runs.query("methods")
    for name in ("methods", "method_memory"):
        for column in ("stage", "model", "method", "engine", "std_tokens_per_s"):
            rows = without(methods, column, "mean_tokens_per_s")
            assert find_chart(name).chart({"methods": rows}) is not None, (name, column)


def test_memory_of_a_trace_without_an_accelerator_is_drawn_without_a_reserve(
    tiny_trace: Callable[..., Path],
) -> None:
    def allocation(at: float, total: int, device_type: int, reserved: int) -> dict[str, object]:
        args = {
            "Device Type": device_type,
            "Device Id": -1 if device_type == 0 else 0,
            "Bytes": 64,
            "Total Allocated": total,
            "Total Reserved": reserved,
        }
        place = {"cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1}
        return {"ph": "i", "s": "t", "ts": at, **place, "args": args}

    host = [span("cpu_op", "x", 0, 9), allocation(1, 64, 0, 0), allocation(5, 128, 0, 0)]
    with tracekit.open(tiny_trace(host), cache=False) as trace:
        chart = trace.plot.memory()
        assert [row["device"] for row in trace.query("memory_over_time").to_dicts()] == ["cpu"] * 2
    (layer,) = chart.spec["layer"]
    assert layer["encoding"]["y"]["field"] == "allocated_bytes"
    assert chart.title == "Memory of the host over time"
    both = [*host, kernel("k", 2, 8), allocation(6, 256, 1, 512)]
    with tracekit.open(tiny_trace(both, name="both.json"), cache=False) as trace:
        chart = trace.plot.memory()
    assert [layer["encoding"]["y"]["field"] for layer in chart.spec["layer"]] == [
        "allocated_bytes",
        "reserved_bytes",
    ]
    assert chart.spec["encoding"]["color"]["scale"]["domain"] == ["device 0"]
