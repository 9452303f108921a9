"""How many requests an engine had at a time: those that were sent and had not ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("throughput_over_time",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without requests."""
    rows = data["throughput_over_time"].to_dicts()
    if not rows:
        return None
    runs = list(dict.fromkeys(row["run"] for row in rows))
    times = [row["start_ns"] for row in rows]
    spec = {
        "data": {"name": "throughput_over_time"},
        "height": 160,
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": quantity(
                "start_ns", times, "time since the start of the load", scale={"nice": False}
            ),
            "y": quantity("running_count", [], "running requests"),
            "color": colours("run", series(runs)),
            "tooltip": told(
                "run", "start_ns", "running_count", "sent_count", "ended_count", "ok_count"
            ),
        },
    }
    title = "How many requests were running, moment by moment"
    return Chart(
        "running_requests", title, spec, {"throughput_over_time": data["throughput_over_time"]}
    )
