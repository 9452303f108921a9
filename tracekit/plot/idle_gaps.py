"""The longest gaps of the devices: when, how long, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told, where

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("idle_gaps",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without gaps."""
    rows = data["idle_gaps"].to_dicts()
    if not rows:
        return None
    causes = sorted({row["cause"] for row in rows})
    starts, lengths = ([row[column] for row in rows] for column in ("start_ns", "idle_ns"))
    spec = {
        "data": {"name": "idle_gaps"},
        "height": 240,
        "transform": where(rows),
        "mark": {"type": "point", "filled": True, "size": 70},
        "encoding": {
            "x": quantity("start_ns", starts, "start, since the first event"),
            "y": quantity("idle_ns", lengths, "length of the gap", scale={"type": "log"}),
            "color": colours("cause", series(causes)),
            "tooltip": told(
                "where",
                "start_ns",
                "idle_ns",
                "cause",
                "op",
                "module",
                "python_line",
                "next_kernel",
            ),
        },
    }
    return Chart("idle_gaps", "The longest gaps", spec, {"idle_gaps": data["idle_gaps"]})
