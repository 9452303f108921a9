"""Pictures of what analyses say: one chart per file, named after it and found by being there.

A chart is a module here without a leading underscore; it has

    NEEDS: tuple[str, ...]     the analyses whose rows it draws
    def chart(data: Mapping[str, Result]) -> Chart | None

where `data` has the results by analysis name, asked with the parameters in PARAMS; there is no
chart where they have nothing to draw. A chart takes its figures from these rows as they are: it
computes no figure of its own. It is written in Vega-Lite, which the report draws by itself, and
altair and vl-convert draw elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Protocol, cast

from tracekit.errors import QueryError
from tracekit.plot._chart import Chart

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.trace import Trace

__all__ = ["PARAMS", "Chart", "ChartModule", "Plots", "chart_module", "chart_names"]

PARAMS: Mapping[str, Mapping[str, object]] = {"latency_cdf": {"metric": "all"}}
"""How analyses are asked of which charts draw more than they say by default."""


class ChartModule(Protocol):
    """What every chart module is."""

    NEEDS: tuple[str, ...]

    def chart(self, data: Mapping[str, Result]) -> Chart | None:
        """Return the chart; None where there is nothing to draw."""
        ...


@cache
def chart_names() -> tuple[str, ...]:
    """Return the names of the charts; none is loaded for it."""
    names = (module.name for module in iter_modules(__path__))
    return tuple(sorted(name for name in names if not name.startswith("_")))


def chart_module(name: str) -> ChartModule:
    """Return the module of a chart.

    Raises:
        QueryError: there is no such chart; the hint names close matches.
    """
    if name not in chart_names():
        close = get_close_matches(name, chart_names(), n=1)
        hint = f"did you mean {close[0]}?" if close else "charts: " + ", ".join(chart_names())
        raise QueryError(f"there is no chart named {name!r}", hint=hint)
    return cast("ChartModule", import_module(f"{__name__}.{name}"))


class Plots:
    """The charts of a trace, each a method: ``trace.plot.modules()``."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __call__(self, name: str) -> Chart:
        """Return a chart by its name.

        Raises:
            QueryError: there is no such chart, or the trace has nothing that it could show.
        """
        module = chart_module(name)
        chart = module.chart(
            {need: self._trace.query(need, **PARAMS.get(need, {})) for need in module.NEEDS}
        )
        if chart is None:
            raise QueryError(
                f"the trace has nothing for the chart {name}",
                hint=f"it shows what {' and '.join(module.NEEDS)} say",
            )
        return chart

    def __getattr__(self, name: str) -> _Method:
        """Return what makes the chart of that name."""
        if name.startswith("_") or name not in chart_names():
            raise AttributeError(f"there is no chart {name!r}: {', '.join(chart_names())}")
        return _Method(self, name)

    def __dir__(self) -> list[str]:
        """Return the names of the charts."""
        return list(chart_names())


class _Method:
    """One chart, not made yet."""

    def __init__(self, plots: Plots, name: str) -> None:
        self._plots, self._name = plots, name
        self.__doc__ = chart_module(name).__doc__

    def __call__(self) -> Chart:
        """Return the chart."""
        return self._plots(self._name)
