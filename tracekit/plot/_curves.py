"""Curves of microbenchmarks: what was reached, by the size of the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracekit.palette import series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import colours, joined, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


def curves(
    measured: Result,
    title: str,
    along: tuple[str, str],
    reached: tuple[str, str],
    parts: Sequence[str],
    also: Sequence[str],
    *,
    has_log_rate: bool = True,
) -> Chart | None:
    """Return the chart of what was measured; None where nothing was.

    Args:
        measured: the rows of an analysis, which names the chart.
        title: what it is called.
        along: the column of the size of the work, and what its axis says.
        reached: the column of the rate, and what its axis says.
        parts: the columns whose values make a curve.
        also: what else is told of a point.
        has_log_rate: whether the axis of the rate is logarithmic; else it begins at zero.
    """
    (x, x_title), (y, y_title) = along, reached
    rows = [row for row in measured.to_dicts() if row[x] and row[y]]
    if not rows:
        return None
    label, name_of = joined(*parts, name="curve")
    log: dict[str, Any] = {"type": "log"}
    up = log if has_log_rate else {"zero": True}
    spec = {
        "data": {"name": measured.name},
        "height": 280,
        "transform": [
            {"filter": {"field": x, "gt": 0}},
            {"filter": {"field": y, "gt": 0}},
            label,
        ],
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": quantity(x, [row[x] for row in rows], x_title, scale=log),
            "y": quantity(y, [row[y] for row in rows], y_title, scale=up),
            "color": colours("curve", series(list(dict.fromkeys(map(name_of, rows))))),
            "tooltip": told("curve", x, y, *also),
        },
    }
    return Chart(measured.name, title, spec, {measured.name: measured})
