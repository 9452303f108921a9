"""The modules of both sides of a comparison, side by side: by wall time, by phase, by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tracekit.palette import PHASE, Colour, classes
from tracekit.plot import Chart, chart_module
from tracekit.plot._encoding import colours, quantity

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.trace import Trace

Sides = Mapping[str, Mapping[str, "Result"]]
"""By name of the side, base and new: the results of the analyses that are drawn."""

ANALYSES = ("module_icicle", "class_icicle")


@dataclass(frozen=True, slots=True)
class View:
    """One way to look at the modules: what its tab says, its chart, and what the colours are of."""

    tab: str
    chart: str
    colour: str | None = None


VIEWS = (
    View("wall time", "modules"),
    View("by phase", "phase_modules", "phase"),
    View("by class of kernel", "class_modules", "class"),
)


def modules_of(trace: Trace) -> dict[str, Result]:
    """Return what is drawn of one side."""
    return {name: trace.query(name) for name in ANALYSES}


def charts_of(view: View, sides: Sides) -> Iterator[Chart]:
    """Return the charts of one view, a side each, where there are modules.

    What took the same time is as wide on both, and what has the same name has the same colour.

    Args:
        view: which.
        sides: what is drawn.
    """
    (need,) = chart_module(view.chart).NEEDS
    drawn = {
        side: chart
        for side, results in sides.items()
        if (chart := chart_module(view.chart).chart(results)) is not None
    }
    ends = [end for results in sides.values() for end in results[need].column("to_ns")]
    for side, chart in drawn.items():
        data = f"{side}_{need}"
        domain = {"domain": [0, max(ends)]}
        encoding = {
            **chart.spec["encoding"],
            "x": quantity("from_ns", ends, "busy time of all devices", scale=domain),
        }
        if view.colour is not None:
            encoding["color"] = colours(view.colour, _colours(view.colour, need, sides))
        spec: dict[str, Any] = {**chart.spec, "data": {"name": data}, "encoding": encoding}
        title = f"Modules of the {side} side, {view.tab}"
        yield replace(
            chart,
            name=f"{side}_{view.chart}",
            title=title,
            spec=spec,
            data={data: sides[side][need]},
        )


def _colours(column: str, need: str, sides: Sides) -> dict[str, Colour]:
    """Return the colours of what is on any side, in one order."""
    values = (value for results in sides.values() for value in results[need].column(column))
    found = [value for value in dict.fromkeys(values) if value is not None]
    if column == "phase":
        return {phase: PHASE.get(phase, PHASE["other"]) for phase in found}
    return classes(found)
