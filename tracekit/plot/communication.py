"""The classes of collectives: how much of each was hidden behind compute, how much was not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import KIND
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, names, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("communication_totals",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without communication."""
    rows = data["communication_totals"].to_dicts()
    if not rows:
        return None
    classes = list(dict.fromkeys(row["class"] for row in rows))
    times = [row["comm_ns"] for row in rows]
    tip = told(
        "class", "pg_name", "call_count", "comm_ns", "wall_ns", "overlapped_pct", "message_bytes"
    )
    spec = {
        "data": {"name": "communication_totals"},
        "height": bar_step(len(classes)),
        "encoding": {"y": names("class", classes), "detail": {"field": "pg_name"}, "tooltip": tip},
        "layer": [
            {
                "mark": {"type": "bar", "opacity": 0.35},
                "encoding": {
                    "x": quantity(
                        "comm_ns", times, "in flight (pale), exposed (full)", stack="zero"
                    ),
                    "color": {"value": KIND["comm"].light},
                },
            },
            {
                "mark": {"type": "bar", "height": {"band": 0.45}},
                "encoding": {
                    "x": quantity(
                        "wall_ns", times, "in flight (pale), exposed (full)", stack="zero"
                    ),
                    "color": {"value": KIND["comm"].light},
                },
            },
        ],
    }
    title = "Communication: how long it was in flight, and how much of that was exposed"
    return Chart(
        "communication", title, spec, {"communication_totals": data["communication_totals"]}
    )
