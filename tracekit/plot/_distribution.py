"""Which share of the requests had a latency of at most so much: one metric, a line for each run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("latency_cdf",)


def distribution(
    name: str,
    title: str,
    data: Mapping[str, Result],
    metric: str,
    axes: tuple[str, str],
) -> Chart | None:
    """Return the chart of one metric; None where no request has it, or it is nothing for all.

    Args:
        name: of the chart.
        title: above it.
        data: the rows of analysis latency_cdf.
        metric: which of its metrics.
        axes: what lies along them: the latency, and the share that had no more.
    """
    rows = [row for row in data["latency_cdf"].to_dicts() if row["metric"] == metric]
    values = [row["value_ns"] for row in rows]
    if not any(values):
        return None
    along, share = axes
    spec = {
        "data": {"name": "latency_cdf"},
        "height": 240,
        "transform": [{"filter": {"field": "metric", "equal": metric}}],
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": quantity("value_ns", values, along),
            "y": quantity("cumulative_pct", [], share, scale={"domain": [0, 100]}),
            "color": colours("run", series(list(dict.fromkeys(row["run"] for row in rows)))),
            "tooltip": told("run", "metric", "value_ns", "cumulative_pct", "cumulative_count"),
        },
    }
    return Chart(name, title, spec, {"latency_cdf": data["latency_cdf"]})
