"""How much work lay queued in front of each stream: mean and most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import BLUE, SKY
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, largest, names, stream_of, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("queue_length",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where nothing was launched."""
    all_rows = data["queue_length"].to_dicts()
    keep, rows, omitted = largest(all_rows, "max_length")
    if not rows:
        return None
    label, _ = stream_of(all_rows)
    tip = told("which", "mean_length", "max_length", "empty_pct", "span_ns", "kernel_count")
    length = {
        "title": "queued device events: most (pale), mean (full)",
        "tickCount": 6,
        "grid": True,
    }
    spec = {
        "data": {"name": "queue_length"},
        "height": bar_step(len(rows)),
        "transform": [*keep, label],
        "encoding": {"y": names("which"), "tooltip": tip},
        "layer": [
            {
                "mark": {"type": "bar", "opacity": 0.5},
                "encoding": {
                    "x": {"field": "max_length", "type": "quantitative", "axis": length},
                    "color": {"value": SKY.light},
                },
            },
            {
                "mark": {"type": "bar", "height": {"band": 0.45}},
                "encoding": {
                    "x": {"field": "mean_length", "type": "quantitative", "axis": length},
                    "color": {"value": BLUE.light},
                },
            },
        ],
    }
    title = "How much work lay queued in front of each stream"
    return Chart("queue_length", title, spec, {"queue_length": data["queue_length"]}, omitted)
