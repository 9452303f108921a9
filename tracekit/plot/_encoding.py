"""What the charts have in common: axes with units, colours of known things, lists of what to tell.

A field's unit is the end of its name, as everywhere; an axis shows it in the step that suits the
largest value, by dividing where text is made: the rows keep their base units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracekit.units import NS_PER_MS, NS_PER_S, NS_PER_US, scale_step, unit_of

if TYPE_CHECKING:
    from tracekit.palette import Colour

MAX_BARS = 40
"""How many bars a chart has; its table has the rest."""

BAR_PX = 22

STRIPS_PX = 480
"""How high the bars of many ranks are together: strips then, of which a few have names."""

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
    field: str, order: Sequence[Any] | None = None, title: str | None = None
) -> dict[str, Any]:
    """Return the encoding of names along an axis, in a given order, else in that of the rows."""
    return {
        "field": field,
        "type": "nominal",
        "sort": list(order) if order else None,
        "axis": {"title": title, "grid": False},
    }


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
    words = "replace(datum.label, /token_count$/, 'tokens')"
    words = f"replace(replace({words}, /_(ns|pct|count)$/, ''), /_/g, ' ')"
    return encoding | {"legend": {"title": None, "orient": "top", "labelExpr": words}}


def told(*fields: str) -> list[dict[str, str]]:
    """Return the encoding of what is told of a mark that is pointed at."""
    return [{"field": field} for field in fields]


def has_several_devices(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether rows are of several devices, so that a chart has to tell them apart."""
    return len({(row["rank"], row["device"]) for row in rows}) > 1


def where(rows: Sequence[Mapping[str, Any]], name: str = "where") -> list[dict[str, Any]]:
    """Return the transform that names the device of each row, for an axis."""
    text = "'rank ' + datum.rank + ' · ' + datum.device"
    if all(row["rank"] is None for row in rows):
        text = "'device ' + datum.device"
    return [{"calculate": text, "as": name}]


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
        "null" if row[column] is None else str(row[column]) for column in columns
    )


def stream_of(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], Callable[[Mapping[str, Any]], str]]:
    """Return the transform that names the stream of each row, and a function that names it so."""
    is_ranked = any(row["rank"] is not None for row in rows)
    before = "'rank ' + datum.rank + ' · ' + " if is_ranked else "'device ' + "

    def name(row: Mapping[str, Any]) -> str:
        rank = "null" if row["rank"] is None else row["rank"]
        start = f"rank {rank} · " if is_ranked else "device "
        return f"{start}{row['device']} · stream {row['stream']}"

    text = f"{before}datum.device + ' · stream ' + datum.stream"
    return {"calculate": text, "as": "which"}, name


def bar_step(count: int) -> dict[str, int]:
    """Return the height of a chart of so many bars, one below the other: not more than a screen."""
    return {"step": max(BAR_PX if count <= MAX_BARS else STRIPS_PX // count, 3)}


def largest(
    rows: Sequence[Mapping[str, Any]], field: str, count: int = MAX_BARS
) -> tuple[list[dict[str, Any]], list[Mapping[str, Any]], str]:
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
