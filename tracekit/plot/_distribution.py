"""Which share of the requests had a latency of at most so much: one metric, a line for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("latency_cdf",)

_TOLD = ("run", "metric", "value_ns", "cumulative_pct", "cumulative_count", "request_count")


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
    chart = line_of_shares(name, title, data["latency_cdf"], rows, axes)
    of_metric = {"transform": [{"filter": {"field": "metric", "equal": metric}}]}
    return replace(chart, spec={**chart.spec, **of_metric})


def line_of_shares(
    name: str,
    title: str,
    result: Result,
    rows: Sequence[Mapping[str, Any]],
    axes: tuple[str, str],
) -> Chart:
    """Return the chart of a distribution: a line for each run, that rises with each value.

    Args:
        name: of the chart.
        title: above it.
        result: what is drawn.
        rows: those of it that are.
        axes: what lies along them: the value, and the share that had no more.
    """
    along, share = axes
    found = [row["value_ns"] for row in rows]
    spec = {
        "data": {"name": result.name},
        "height": 240,
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": quantity("value_ns", found, along),
            "y": quantity("cumulative_pct", [], share, scale={"domain": [0, 100]}),
            "color": colours("run", series(list(dict.fromkeys(row["run"] for row in rows)))),
            "tooltip": told(
                *(column for column in _TOLD if column in result.column_names),
            ),
        },
    }
    return Chart(name, title, spec, {result.name: result})
