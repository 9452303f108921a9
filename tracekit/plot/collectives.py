"""Single collectives: the size of their message against the bandwidth of the bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("collectives",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where no message has a size."""
    rows = [
        row
        for row in data["collectives"].to_dicts()
        if row["message_bytes"] and row["bus_bytes_per_s"]
    ]
    if not rows:
        return None
    classes = sorted({row["class"] for row in rows})
    sizes, rates = ([row[c] for row in rows] for c in ("message_bytes", "bus_bytes_per_s"))
    spec = {
        "data": {"name": "collectives"},
        "height": 280,
        "transform": [
            {"filter": {"field": "message_bytes", "gt": 0}},
            {"filter": {"field": "bus_bytes_per_s", "gt": 0}},
        ],
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.7},
        "encoding": {
            "x": quantity("message_bytes", sizes, "size of the message", scale={"type": "log"}),
            "y": quantity("bus_bytes_per_s", rates, "bus bandwidth", scale={"type": "log"}),
            "color": colours("class", series(classes)),
            "tooltip": told(
                "class", "pg_name", "rank", "message_bytes", "bus_bytes_per_s", "dur_ns", "wall_ns"
            ),
        },
    }
    title = "The longest collectives: size against bus bandwidth"
    return Chart("collectives", title, spec, {"collectives": data["collectives"]})
