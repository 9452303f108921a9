"""Memory in use and kept by the allocator, over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told, where

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("memory_over_time",)

MAX_LINES = 8


def _text(value: object) -> str:
    return "null" if value is None else str(value)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no allocator event was recorded.

    Where an accelerator is, memory of the host is left to the table; that keeps nothing in reserve.
    """
    every = data["memory_over_time"].to_dicts()
    rows = [row for row in every if row["device"] != "cpu"] or every
    if not rows:
        return None
    is_host = rows[0]["device"] == "cpu"
    devices = dict.fromkeys((row["rank"], row["device"]) for row in rows)
    unknown = all(row["rank"] is None for row in every)
    labels = [f"device {d}" if unknown else f"rank {_text(r)} · {d}" for r, d in devices][
        :MAX_LINES
    ]
    times = [row["at_ns"] for row in rows]
    sizes = [max(row["allocated_bytes"], row["reserved_bytes"] or 0) for row in rows]
    x = quantity("at_ns", times, "time since the first event", scale={"zero": False, "nice": False})
    tip = told("where", "at_ns", "allocated_bytes", "reserved_bytes", "event_count")
    along = "in use" if is_host else "in use; kept (dashed)"
    lines: dict[str, dict[str, Any]] = {
        "allocated_bytes": {"strokeWidth": 1.5},
        "reserved_bytes": {"strokeDash": [4, 3]},
    }
    if is_host:
        del lines["reserved_bytes"]
    spec = {
        "data": {"name": "memory_over_time"},
        "height": 240,
        "transform": [
            *where(every),
            {"filter": {"field": "where", "oneOf": labels}},
        ],
        "encoding": {"x": x, "color": colours("where", series(labels)), "tooltip": tip},
        "layer": [
            {
                "mark": {"type": "line", "interpolate": "step-after", **how},
                "encoding": {"y": quantity(column, sizes, along)},
            }
            for column, how in lines.items()
        ],
    }
    omitted = f"{len(labels)} of {len(devices):,} devices" if len(devices) > len(labels) else ""
    title = "Memory of the host over time" if is_host else "Memory of the devices over time"
    return Chart("memory", title, spec, {"memory_over_time": data["memory_over_time"]}, omitted)
