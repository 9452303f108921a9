"""Parts of charts: axes with units, colors, tooltips, and common forms.

The suffix of a field is its unit. Values are in base units; the unit of axis labels depends on the
largest value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tracekit.palette import Colour
from tracekit.units import NS_PER_MS, NS_PER_S, NS_PER_US, scale_step, unit_of

Rows = list[dict[str, Any]]
"""Rows of an analysis, by column."""


class Drawing(Struct, frozen=True):
    """Result of drawing a chart: title, Vega-Lite without data, and a note on omitted rows.

    `also` names further analyses whose rows the layers use.
    """

    title: str
    spec: dict[str, Any]
    omitted: str = ""
    also: tuple[str, ...] = ()


MAX_BARS = 40
"""Maximum number of bars in a chart. The table below has all rows."""

BAR_PX = 22

LEVEL_PX = 24

STRIPS_PX = 480
"""Total height of the bars of many ranks, only a few of which have labels."""

_WORDS = (
    "replace(replace(replace(datum.label, /token_count$/, 'tokens'), "
    "/_(ns|pct|count)$/, ''), /_/g, ' ')"
)
"""Vega expression that removes the unit from a column name."""

_DURATIONS = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"), (1, "ns"))


def axis(field: str, values: Iterable[Any], title: str) -> dict[str, Any]:
    """Return an axis with the unit of its labels in the title.

    Args:
        field: column whose suffix is the base unit.
        values: values in that unit; values that are not numbers are ignored.
        title: title without the unit.
    """
    numbers = [abs(v) for v in values if isinstance(v, (int, float)) and v == v]
    factor, shown = _step(field, max(numbers, default=0))
    label = "datum.value" if factor == 1 else f"datum.value / {factor}"
    return {
        "title": f"{title}, {shown}" if shown else title,
        "labelExpr": f"format({label}, ',.6~g')",
        "tickCount": 6,
        "grid": True,
    }


def _step(field: str, largest: float) -> tuple[int, str]:
    unit = unit_of(field)
    if unit == "ns":
        return next((step for step in _DURATIONS if largest >= step[0]), _DURATIONS[-1])
    if unit == "pct":
        return 1, "%"
    if unit == "per_s":
        return 1, "1/s"
    return (scale_step(unit, largest) if unit else None) or (1, "")


def quantity(field: str, values: Iterable[Any], title: str, **more: Any) -> dict[str, Any]:
    """Return the encoding of a number along an axis."""
    scale = axis(field, values, title)
    return {"field": field, "type": "quantitative", "axis": scale, **more}


def names(
    field: str,
    order: Sequence[Any] | None = None,
    label_px: int | None = None,
    *,
    words: bool = False,
) -> dict[str, Any]:
    """Return the encoding of names along an axis, in the given order or in row order."""
    axis: dict[str, Any] = {"title": None, "grid": False}
    if words:
        axis["labelExpr"] = _WORDS
    if label_px is not None:
        axis["labelLimit"] = label_px
    return {
        "field": field,
        "type": "nominal",
        "sort": list(order) if order else None,
        "axis": axis,
    }


def fixed(colour: Colour) -> dict[str, str]:
    """Return the encoding of one color for all marks."""
    return {"value": colour.light}


def text_of(value: object) -> str:
    """Return a value as a Vega expression."""
    return "null" if value is None else str(value)


def positive(*fields: str) -> list[dict[str, Any]]:
    """Return the transform that drops values that a logarithmic axis cannot show."""
    return [{"filter": {"field": field, "gt": 0}} for field in fields]


def colours(field: str, of: Mapping[str, Colour]) -> dict[str, Any]:
    """Return the encoding that colors a field by its names."""
    return {
        "field": field,
        "type": "nominal",
        "scale": {"domain": list(of), "range": [colour.light for colour in of.values()]},
        "legend": {"title": None, "orient": "top"},
    }


def parts(of: Mapping[str, Colour]) -> dict[str, Any]:
    """Return the encoding of field `part`: parts of a total, labeled without their unit."""
    encoding = colours("part", of)
    return encoding | {"legend": {"title": None, "orient": "top", "labelExpr": _WORDS}}


def tooltip(*fields: str) -> list[dict[str, str]]:
    """Return the encoding of the tooltip of a mark."""
    return [{"field": field} for field in fields]


def has_several_devices(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the rows are from several devices."""
    return len({(row["rank"], row["device"]) for row in rows}) > 1


def where(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the transform that names the device of each row as `where`."""
    return [{"calculate": _device(rows)[0], "as": "where"}]


NameOf = Callable[[Mapping[str, Any]], str]
"""Returns the name of a row."""


def _device(rows: Iterable[Mapping[str, Any]]) -> tuple[str, NameOf]:
    """Return the name of a row's device, as a Vega expression and as a Python function."""
    rows = list(rows)
    start = " · " + of_number(row["device"] for row in rows)
    if all(row["rank"] is None for row in rows):
        return "'device ' + datum.device", lambda row: f"device {row['device']}"
    return f"'rank ' + datum.rank + '{start}' + datum.device", (
        lambda row: f"rank {text_of(row['rank'])}{start}{row['device']}"
    )


def of_number(devices: Iterable[object]) -> str:
    """Return the prefix of numeric device ids."""
    return "device " if all(str(device).isdigit() for device in devices) else ""


def devices_of(rows: Rows, every: Rows | None = None) -> tuple[list[tuple[Any, Any]], list[str]]:
    """Return the devices of rows by rank and id, and their names as in :func:`where`."""
    devices = list(dict.fromkeys((row["rank"], row["device"]) for row in rows))
    name = _device(rows if every is None else every)[1]
    return devices, [name({"rank": rank, "device": device}) for rank, device in devices]


def request_of(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], NameOf]:
    """Return the transform that names each row's request, and an equivalent Python function."""
    if len({row["run"] for row in rows}) == 1:
        return {"calculate": "'#' + datum.request_id", "as": "which"}, (
            lambda row: f"#{row['request_id']}"
        )
    return {"calculate": "datum.run + ' #' + datum.request_id", "as": "which"}, (
        lambda row: f"{row['run']} #{row['request_id']}"
    )


def joined(*columns: str, name: str = "which") -> tuple[dict[str, Any], NameOf]:
    """Return the transform that names each row by columns, and an equivalent Python function."""
    text = " + ' · ' + ".join(f"datum.{column}" for column in columns)
    return {"calculate": text, "as": name}, lambda row: " · ".join(
        text_of(row[column]) for column in columns
    )


def stream_of(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], NameOf]:
    """Return the transform that names the stream of each row, and an equivalent Python function."""
    text, name = _device(rows)
    text += " + ' · stream ' + datum.stream"
    return {"calculate": text, "as": "which"}, lambda row: f"{name(row)} · stream {row['stream']}"


def bar_step(count: int) -> dict[str, int]:
    """Return the height per bar with which the chart fits on a screen."""
    return {"step": max(BAR_PX if count <= MAX_BARS else STRIPS_PX // count, 3)}


def largest(
    rows: Rows, field: str, count: int = MAX_BARS
) -> tuple[list[dict[str, Any]], Rows, str]:
    """Select the rows with the largest values of a field that fit a chart.

    Returns:
        The transform, the rows, and a note on omitted rows, if any.
    """
    values = sorted((row[field] for row in rows if row[field] is not None), reverse=True)
    selected = [row for row in rows if row[field] is not None]
    if len(values) <= count:
        return [{"filter": {"field": field, "valid": True}}], selected, ""
    least = values[count - 1]
    selected = [row for row in selected if row[field] >= least]
    text = (
        f"the {len(selected):,} largest of {len(values):,}" if len(selected) < len(values) else ""
    )
    return [{"filter": {"field": field, "gte": least}}], selected, text


def bars(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    y: dict[str, Any],
    x: tuple[str, str, str],
    colour: dict[str, Any],
    tip: Sequence[str],
    transform: Sequence[Mapping[str, Any]] = (),
    omitted: str = "",
    **along: Any,
) -> Drawing | None:
    """Return a bar chart of the rows, or None without rows.

    `x` has the field of the bar length, the column with the axis values, and the axis title. `tip`
    has the columns of the tooltip.
    """
    if not rows:
        return None
    field, column, axis_title = x
    spec = {
        "height": bar_step(len(rows)),
        **({"transform": list(transform)} if transform else {}),
        "mark": {"type": "bar"},
        "encoding": {
            "y": y,
            "x": quantity(field, [row[column] for row in rows], axis_title, **along),
            "color": colour,
            "tooltip": tooltip(*tip),
        },
    }
    return Drawing(title, spec, omitted)


def nested_bars(
    title: str,
    count: int,
    y: dict[str, Any],
    x: tuple[str, str, Sequence[Any], str],
    look: tuple[Colour, Colour, float],
    tip: Sequence[str],
    *,
    transform: Sequence[Mapping[str, Any]] = (),
    omitted: str = "",
    has_unit: bool = True,
    detail: Mapping[str, Any] | None = None,
    **along: Any,
) -> Drawing | None:
    """Return a chart of narrow bars inside wide, pale bars, or None without rows.

    `x` has the fields of the wide and the narrow bar, the axis values, and the axis title. `look`
    has their colors and the opacity of the wide bar. `tip` has the columns of the tooltip.
    """
    if not count:
        return None
    *fields, values, axis_title = x
    *of, opacity = look

    def length(field: str) -> dict[str, Any]:
        if has_unit:
            return quantity(field, values, axis_title, **along)
        plain = {"title": axis_title, "tickCount": 6, "grid": True}
        return {"field": field, "type": "quantitative", "axis": plain}

    marks = ({"type": "bar", "opacity": opacity}, {"type": "bar", "height": {"band": 0.45}})
    spec = {
        "height": bar_step(count),
        **({"transform": list(transform)} if transform else {}),
        "encoding": {
            "y": y,
            **({"detail": dict(detail)} if detail else {}),
            "tooltip": tooltip(*tip),
        },
        "layer": [
            {"mark": mark, "encoding": {"x": length(field), "color": fixed(colour)}}
            for mark, field, colour in zip(marks, fields, of, strict=True)
        ],
    }
    return Drawing(title, spec, omitted)


def lines(
    title: str,
    x: dict[str, Any],
    y: dict[str, Any],
    colour: dict[str, Any],
    tip: Sequence[str],
    *,
    mark: Mapping[str, Any],
    transform: Sequence[Mapping[str, Any]] = (),
    height: int = 240,
    omitted: str = "",
) -> Drawing:
    """Return a chart of lines (or of points, depending on `mark`) over two axes."""
    spec = {
        "height": height,
        **({"transform": list(transform)} if transform else {}),
        "mark": {"type": "line", **mark},
        "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip(*tip)},
    }
    return Drawing(title, spec, omitted)


def icicle(
    title: str, rows: Rows, colour: dict[str, Any], tip: Sequence[str], **more: Any
) -> Drawing | None:
    """Return an icicle chart of modules: widths are times, children lie below their parents."""
    if not rows:
        return None
    ends = [row["to_ns"] for row in rows]
    depths = sorted({row["depth"] for row in rows})
    spec = {
        "height": {"step": LEVEL_PX},
        **more,
        "mark": {"type": "bar", "stroke": "#ffffff", "strokeWidth": 1},
        "encoding": {
            "x": quantity("from_ns", ends, "time of all devices", scale={"nice": False}),
            "x2": {"field": "to_ns"},
            "y": {"field": "depth", "type": "ordinal", "sort": depths, "axis": {"title": "depth"}},
            "color": colour,
            "text": {"field": "label"},
            "tooltip": tooltip(*tip),
        },
        "usermeta": {"zoom": "x", "label": "label"},
    }
    return Drawing(title, spec)
