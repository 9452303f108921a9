"""Bars of a figure of each run of training, by model and method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, colours, joined, largest, names, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("methods",)


def bars_by_method(
    name: str, title: str, data: Mapping[str, Result], column: str, axis: str
) -> Chart | None:
    """Return a chart with a bar for each run; None where no run has the figure.

    Args:
        name: of the chart.
        title: above it.
        data: the rows of analysis methods.
        column: of these, the figure.
        axis: what the figure is, below its axis.
    """
    keep, rows, omitted = largest(data["methods"].to_dicts(), column)
    if not rows:
        return None
    label, name_of = joined("model", "method", "run")
    spec = {
        "data": {"name": "methods"},
        "height": bar_step(len(rows)),
        "transform": [*keep, label],
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("which", [name_of(row) for row in rows]),
            "x": quantity(column, [row[column] for row in rows], axis),
            "color": colours("stage", series(sorted({str(row["stage"]) for row in rows}))),
            "tooltip": told(
                *("run", "model", "method", "engine", "world_size", "batch_size"),
                *("mean_tokens_per_s", "std_tokens_per_s", "peak_bytes"),
            ),
        },
    }
    return Chart(name, title, spec, {"methods": data["methods"]}, omitted)
