"""Charts of analyses, defined by SQL headers or functions in `trace_charts` and `run_charts`.

Charts show the results of analyses and compute nothing. Charts are Vega-Lite specifications. The
report draws them with its own script; elsewhere, altair and vl-convert draw them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.header import parameters, views_of
from tracekit.errors import QueryError, did_you_mean
from tracekit.plot._chart import Chart
from tracekit.plot._registry import CHARTS, ChartKind

if TYPE_CHECKING:
    from tracekit.trace import Trace

__all__ = ["PARAMS", "Chart", "ChartKind", "Plots", "chart_names", "find_chart"]

PARAMS: Mapping[str, Mapping[str, object]] = {
    name: parameters(view["ask"])
    for name, view in load_catalog().analyses.views("page").items()
    if "ask" in view
}
"""Parameters of analyses whose charts need more rows than by default."""


@cache
def chart_names() -> tuple[str, ...]:
    """Return the names of the charts."""
    # Importing the modules registers their charts.
    from tracekit.plot import header_charts, run_charts, trace_charts  # noqa: F401

    header_charts.register_all()
    return tuple(sorted(CHARTS))


def find_chart(name: str) -> ChartKind:
    """Return a chart by its name.

    Raises:
        QueryError: the chart does not exist; the hint names close matches.
    """
    if name not in chart_names():
        hint = did_you_mean(name, chart_names(), count=1) or "charts: " + ", ".join(chart_names())
        raise QueryError(f"no chart named {name!r}", hint=hint)
    return CHARTS[name]


class Plots:
    """The charts of a trace, each a method: ``trace.plot.modules()``."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __repr__(self) -> str:
        return f"<Plots: {', '.join(dir(self))}>"

    def __call__(self, name: str) -> Chart:
        """Return a chart by its name.

        Raises:
            QueryError: the chart does not exist, or has no data in the trace.
        """
        kind = self._kind(name)
        chart = kind.chart({n: self._trace.query(n, **PARAMS.get(n, {})) for n in kind.needs})
        if chart is None:
            raise QueryError(
                f"the trace has no data for the chart {name}",
                hint=f"it shows the columns {' and '.join(kind.needs)}",
            )
        return chart

    def _kind(self, name: str) -> ChartKind:
        """Return a chart by name, from the user's SQL files or tracekit."""
        own = self._trace.library.analyses.get(name)
        view = views_of(own.spec.sql).get("chart") if own else None
        if own is None or view is None:
            return find_chart(name)
        from tracekit.plot.header_charts import kind_of

        return kind_of(name, own.spec.question, view)

    def pivot(
        self,
        rows: str | Sequence[str],
        columns: str,
        values: str = "wall_ns",
        where: str | None = None,
        step: int | None = None,
    ) -> Chart:
        """Return the heat map of :meth:`tracekit.Trace.pivot`, which has the same arguments.

        Raises:
            QueryError: the pivot has no rows.
            The errors of :meth:`tracekit.Trace.pivot`.
        """
        from tracekit.plot.trace_charts import pivot_cells

        names = (rows,) if isinstance(rows, str) else rows
        result = self._trace.pivot(names, columns, values, where, step)
        return pivot_cells(result, len(names), columns, values)

    def __getattr__(self, name: str) -> _Method:
        """Return the function that creates a chart."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return _Method(self, self._kind(name))
        except QueryError:
            known = ", ".join(chart_names())
            raise AttributeError(f"no chart named {name!r}: {known}") from None

    def __dir__(self) -> list[str]:
        """Return the names of the charts."""
        return [*chart_names(), "pivot"]


class _Method:
    def __init__(self, plots: Plots, kind: ChartKind) -> None:
        self._plots, self._name = plots, kind.name
        self.__doc__ = kind.description

    def __call__(self) -> Chart:
        """Return the chart."""
        return self._plots(self._name)
