"""The length of each step on each device, over the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told, where

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("steps",)

MAX_LINES = 16


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without steps, and of many devices: chart step_spread shows those."""
    rows = [row for row in data["steps"].to_dicts() if row["step"] is not None and row["span_ns"]]
    if not rows:
        return None
    devices = dict.fromkeys((row["rank"], row["device"]) for row in rows)
    if len(devices) > MAX_LINES:
        return None
    labels = [
        f"device {d}" if all(r is None for r, _ in devices) else f"rank {r} · {d}"
        for r, d in devices
    ]
    spans = [row["span_ns"] for row in rows]
    step = quantity("step", [], "step", scale={"zero": False})
    step["axis"]["tickMinStep"] = 1
    spec = {
        "data": {"name": "steps"},
        "height": 220,
        "transform": [{"filter": {"field": "step", "valid": True}}, *where(rows)],
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": step,
            "y": quantity("span_ns", spans, "length on the device"),
            "color": colours("where", series(labels)),
            "tooltip": told("where", "step", "span_ns", "dur_ns", "wall_ns", "kernel_count"),
        },
    }
    return Chart("steps", "Steps over time", spec, {"steps": data["steps"]})
