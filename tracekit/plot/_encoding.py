"""What charts are made of: axes with units, colours of known things, tooltips, and usual forms.

A field's unit is the end of its name, as everywhere; an axis shows it in the step that suits the
largest value, by dividing where text is made: the rows keep their base units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracekit.palette import Colour
from tracekit.units import NS_PER_MS, NS_PER_S, NS_PER_US, scale_step, unit_of

Rows = list[dict[str, Any]]
"""The rows of an analysis, by column."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a chart is drawn: its title, Vega-Lite without the data, and what it leaves out.

    `also` are further analyses whose rows layers of it name.
    """

    title: str
    spec: dict[str, Any]
    omitted: str = ""
    also: tuple[str, ...] = ()


MAX_BARS = 40
"""How many bars a chart has; its table has the rest."""

BAR_PX = 22

LEVEL_PX = 24

STRIPS_PX = 480
"""How high the bars of many ranks are together: strips then, of which a few have names."""

_WORDS = (
    "replace(replace(replace(datum.label, /token_count$/, 'tokens'), "
    "/_(ns|pct|count)$/, ''), /_/g, ' ')"
)
"""Columns as parts of a whole: without their unit."""

_DURATIONS = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"), (1, "ns"))


def axis(field: str, values: Iterable[Any], title: str) -> dict[str, Any]:
    """Return an axis whose title names the unit in which its labels are.

    Args:
        field: the column, whose name tells the base unit.
        values: what is shown, in that; nothing of it has to be a number.
        title: what the axis says, without the unit.
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
    told = axis(field, values, title)
    return {"field": field, "type": "quantitative", "axis": told, **more}


def names(
    field: str,
    order: Sequence[Any] | None = None,
    label_px: int | None = None,
    *,
    words: bool = False,
) -> dict[str, Any]:
    """Return the encoding of names along an axis, in a given order, else in that of the rows."""
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
    """Return the encoding of one colour for all marks."""
    return {"value": colour.light}


def text_of(value: object) -> str:
    """Return a value as Vega's expressions write it."""
    return "null" if value is None else str(value)


def positive(*fields: str) -> list[dict[str, Any]]:
    """Return the transform that keeps rows which a logarithmic axis can show."""
    return [{"filter": {"field": field, "gt": 0}} for field in fields]


def colours(field: str, of: Mapping[str, Colour], title: str | None = None) -> dict[str, Any]:
    """Return the encoding of a field by the colours of what it names."""
    return {
        "field": field,
        "type": "nominal",
        "scale": {"domain": list(of), "range": [colour.light for colour in of.values()]},
        "legend": {"title": title, "orient": "top"},
    }


def parts(field: str, of: Mapping[str, Colour]) -> dict[str, Any]:
    """Return the encoding of columns as parts of a whole, shown without their unit."""
    encoding = colours(field, of)
    return encoding | {"legend": {"title": None, "orient": "top", "labelExpr": _WORDS}}


def told(*fields: str) -> list[dict[str, str]]:
    """Return the encoding of what is told of a mark that is pointed at."""
    return [{"field": field} for field in fields]


def has_several_devices(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether rows are of several devices, so that a chart has to tell them apart."""
    return len({(row["rank"], row["device"]) for row in rows}) > 1


def where(rows: Sequence[Mapping[str, Any]], name: str = "where") -> list[dict[str, Any]]:
    """Return the transform that names the device of each row, for an axis."""
    return [{"calculate": _device(rows)[0], "as": name}]


def _device(rows: Iterable[Mapping[str, Any]]) -> tuple[str, Callable[[Mapping[str, Any]], str]]:
    """Return the expression that names the device of a row, and a function that names it so."""
    rows = list(rows)
    start = " · " + of_number(row["device"] for row in rows)
    if all(row["rank"] is None for row in rows):
        return "'device ' + datum.device", lambda row: f"device {row['device']}"
    return f"'rank ' + datum.rank + '{start}' + datum.device", (
        lambda row: f"rank {text_of(row['rank'])}{start}{row['device']}"
    )


def of_number(devices: Iterable[object]) -> str:
    """Return the word that stands before the ids of devices where they are bare numbers."""
    return "device " if all(str(device).isdigit() for device in devices) else ""


def devices_of(rows: Rows, every: Rows | None = None) -> tuple[list[tuple[Any, Any]], list[str]]:
    """Return the devices of rows by rank and id, and their names as `where` writes them."""
    devices = list(dict.fromkeys((row["rank"], row["device"]) for row in rows))
    name = _device(rows if every is None else every)[1]
    return devices, [name({"rank": rank, "device": device}) for rank, device in devices]


def request_of(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], Callable[[Mapping[str, Any]], str]]:
    """Return the transform that names the request of each row, and a function that names it so."""
    if len({row["run"] for row in rows}) == 1:
        return {"calculate": "'#' + datum.request_id", "as": "which"}, (
            lambda row: f"#{row['request_id']}"
        )
    return {"calculate": "datum.run + ' #' + datum.request_id", "as": "which"}, (
        lambda row: f"{row['run']} #{row['request_id']}"
    )


def joined(
    *columns: str, name: str = "which"
) -> tuple[dict[str, Any], Callable[[Mapping[str, Any]], str]]:
    """Return the transform that names each row by some columns, and a function that names it so."""
    text = " + ' · ' + ".join(f"datum.{column}" for column in columns)
    return {"calculate": text, "as": name}, lambda row: " · ".join(
        text_of(row[column]) for column in columns
    )


def stream_of(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], Callable[[Mapping[str, Any]], str]]:
    """Return the transform that names the stream of each row, and a function that names it so."""
    text, name = _device(rows)
    text += " + ' · stream ' + datum.stream"
    return {"calculate": text, "as": "which"}, lambda row: f"{name(row)} · stream {row['stream']}"


def bar_step(count: int) -> dict[str, int]:
    """Return the height of a chart of so many bars, one below the other: not more than a screen."""
    return {"step": max(BAR_PX if count <= MAX_BARS else STRIPS_PX // count, 3)}


def largest(
    rows: Rows, field: str, count: int = MAX_BARS
) -> tuple[list[dict[str, Any]], Rows, str]:
    """Choose the rows that a chart has room for: those with the largest values of a field.

    Returns:
        The transform that keeps them, the rows, and what to say of the others, if any.
    """
    values = sorted((row[field] for row in rows if row[field] is not None), reverse=True)
    kept = [row for row in rows if row[field] is not None]
    if len(values) <= count:
        return [{"filter": {"field": field, "valid": True}}], kept, ""
    least = values[count - 1]
    kept = [row for row in kept if row[field] >= least]
    text = f"the {len(kept):,} largest of {len(values):,}" if len(kept) < len(values) else ""
    return [{"filter": {"field": field, "gte": least}}], kept, text


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
    """Return a chart with a bar for each row; None without rows.

    `x` are the field of the length, the column whose values the axis holds, and what it says; `tip`
    are the columns that are shown of a bar that is pointed at.
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
            "tooltip": told(*tip),
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
    """Return a chart of narrow bars within wide, pale ones; None without any.

    `x` are the fields of the pale and of the full length, the values of the axis, and what it says;
    `look` the colours of both, and how opaque the pale one is; `tip` as in :func:`bars`.
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
            "tooltip": told(*tip),
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
    """Return a chart of lines, or of the points that `mark` names, over two axes."""
    spec = {
        "height": height,
        **({"transform": list(transform)} if transform else {}),
        "mark": {"type": "line", **mark},
        "encoding": {"x": x, "y": y, "color": colour, "tooltip": told(*tip)},
    }
    return Drawing(title, spec, omitted)


def icicle(
    title: str, rows: Rows, colour: dict[str, Any], tip: Sequence[str], **more: Any
) -> Drawing | None:
    """Return a tree of modules, each as wide as its time, within those around it."""
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
            "tooltip": told(*tip),
        },
        "usermeta": {"zoom": "x", "label": "label"},
    }
    return Drawing(title, spec)
