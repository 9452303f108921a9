"""Which share of the requests was answered within which time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("latency_cdf",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without requests."""
    rows = data["latency_cdf"].to_dicts()
    if not rows:
        return None
    runs = list(dict.fromkeys(row["run"] for row in rows))
    spec = {
        "data": {"name": "latency_cdf"},
        "height": 240,
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": quantity(
                "value_ns", [row["value_ns"] for row in rows], "time to the end of a request"
            ),
            "y": quantity(
                "cumulative_pct", [], "requests answered within it", scale={"domain": [0, 100]}
            ),
            "color": colours("run", series(runs)),
            "tooltip": told("run", "metric", "value_ns", "cumulative_pct", "cumulative_count"),
        },
    }
    title = "Which share of the requests was answered within which time"
    return Chart("latency_cdf", title, spec, {"latency_cdf": data["latency_cdf"]})
