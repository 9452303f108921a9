"""Charts defined in SQL headers: bars, points, and lines over columns.

`tracekit.analysis.header.VIEWS` describes the settings. Other charts are functions in
`trace_charts` or `run_charts`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tracekit import palette
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.header import View
from tracekit.palette import BLUE, KIND, NAMED, PARTS, PHASE, Colour, series
from tracekit.plot._encoding import (
    Drawing,
    Rows,
    bars,
    colours,
    fixed,
    largest,
    lines,
    names,
    parts,
    quantity,
    where,
)
from tracekit.plot._registry import CHARTS, ChartKind

POINT = {"type": "point", "filled": True, "size": 70}
MARKS: dict[str, dict[str, Any]] = {"points": POINT, "lines": {"point": True}}

_OF = {f"{part.name}_ns": part.colour for part in PARTS} | {"covered_ns": KIND["compute"]}
"""Colors of the columns that are parts of device time."""


def parts_of_time(*columns: str) -> dict[str, Any]:
    """Return the encoding of columns as parts of device time."""
    return parts(series(columns) | {one: _OF[one] for one in columns if one in _OF})


def draw(view: View, rows: Rows) -> Drawing | None:
    """Return the chart that a header defines, or None without data."""
    tip = view["tip"].split(",")
    transform = where(rows) if "where" in tip else []
    if view["form"] != "bars":
        return lines(
            view["title"],
            _axis(view, "x", view["axis"], rows),
            _axis(view, "y", view["y_axis"], rows),
            _colour(view, rows),
            tip,
            transform=transform,
            mark=MARKS[view["form"]],
        )
    selected, omitted = rows, ""
    if "largest" in view:
        keep, selected, omitted = largest(rows, view["largest"])
        transform = [*keep, *transform]
    y = names(view["y"], [row[view["y"]] for row in selected] if "order" in view else None)
    if "parts" not in view:
        x = (view["x"], view["x"], view["axis"])
        colour, stacked = _colour(view, selected), {}
    else:
        columns = view["parts"].split(",")
        x = ("part_ns", view["x_of"], view["axis"])
        transform = [*transform, {"fold": columns, "as": ["part", "part_ns"]}]
        colour, stacked = parts_of_time(*columns), {"stack": "zero"}
    return bars(
        view["title"],
        selected,
        y=y,
        x=x,
        colour=colour,
        tip=tip,
        transform=transform,
        omitted=omitted,
        **stacked,
    )


def _axis(view: View, along: str, title: str, rows: Rows) -> dict[str, Any]:
    scale = {"scale": {"type": view[f"{along}_scale"]}} if f"{along}_scale" in view else {}
    return quantity(view[along], [row[view[along]] for row in rows], title, **scale)


def _colour(view: View, rows: Rows) -> dict[str, Any]:
    name = view.get("colour", "")
    if name not in rows[0]:
        return fixed(NAMED.get(name, BLUE))
    values = list(dict.fromkeys(str(row[name]) for row in rows))
    if name == "class":
        return colours(name, palette.classes(values))
    known: dict[str, Colour] = {"kind": KIND, "phase": PHASE}.get(name, {})
    return colours(name, {one: known[one] for one in values} if known else series(sorted(values)))


def kind_of(analysis: str, question: str, view: View) -> ChartKind:
    """Return the chart kind for a chart in the header of an analysis."""
    return ChartKind(view.get("name", analysis), (analysis,), partial(draw, view), question)


def register_all() -> None:
    """Add the charts of all headers."""
    analyses = load_catalog().analyses
    question = {title.name: title.question for title in analyses.titles()}
    for name, view in analyses.views("chart").items():
        kind = kind_of(name, question[name], view)
        CHARTS[kind.name] = kind
