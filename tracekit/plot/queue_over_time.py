"""How long the queue in front of each stream was, moment by moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, stream_of, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("queue_over_time",)

MAX_LINES = 8


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where nothing was launched."""
    rows = data["queue_over_time"].to_dicts()
    if not rows:
        return None
    label, name_of = stream_of(rows)
    highest: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        highest[name_of(row)] = max(highest[name_of(row)], row["mean_length"])
    longest = set(sorted(highest, key=lambda one: -highest[one])[:MAX_LINES])
    shown = [name for name in highest if name in longest]
    times = [row["start_ns"] for row in rows]
    spec = {
        "data": {"name": "queue_over_time"},
        "height": 240,
        "transform": [label, {"filter": {"field": "which", "oneOf": shown}}],
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": quantity("start_ns", times, "time since the first event", scale={"nice": False}),
            "y": quantity("mean_length", [], "queued device events, mean"),
            "color": colours("which", series(shown)),
            "tooltip": told("which", "start_ns", "dur_ns", "mean_length", "max_length"),
        },
    }
    omitted = f"the {len(shown)} longest of {len(highest):,}" if len(highest) > len(shown) else ""
    title = "How much work lay queued, moment by moment"
    return Chart(
        "queue_over_time", title, spec, {"queue_over_time": data["queue_over_time"]}, omitted
    )
