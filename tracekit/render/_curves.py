"""Draws curves with characters: distributions, and rates by size. Letters distinguish curves."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from rich.text import Text

from tracekit.render._text import cell_width, printable, truncate
from tracekit.units import format_short

_ROW_COUNT = 11
"""Number of rows of a drawing: 0 %, 10 %, … 100 %."""

_LABELLED_ROWS = (0, 5, 10)
_MAX_WIDTH = 100
_MIN_WIDTH = 20
_ONE = "•"
_SEVERAL = "abcdefghijklmnopqrstuvwxyz"
_STYLES = ("green", "yellow", "cyan", "magenta", "red", "blue")
_PCT_LABELS = {row: f"{row * 10} %" for row in _LABELLED_ROWS}

MAX_CURVES = len(_SEVERAL)
"""Maximum number of curves in one drawing."""

_Cells = dict[tuple[int, int], int]
"""Index of the visible curve, by row (counted from the bottom) and column of a cell."""


class Curve(Struct, frozen=True):
    """A cumulative distribution function: ascending values with the share up to each value."""

    name: str
    values_ns: list[int] = field(default_factory=list)
    pcts: list[float] = field(default_factory=list)

    def pct_at(self, value_ns: float) -> float:
        """Return the percentage of values that are at most `value_ns`."""
        position = bisect_right(self.values_ns, value_ns)
        return self.pcts[position - 1] if position else 0.0


def curve_lines(curves: Sequence[Curve], width: int) -> list[Text]:
    """Return a drawing of at most `MAX_CURVES` nonempty curves over a common axis."""
    columns = _columns(_PCT_LABELS, width)
    last_ns = max(curve.values_ns[-1] for curve in curves)
    first_ns = min(curve.values_ns[0] for curve in curves)
    # The axis starts at zero unless all curves would be in the right half.
    start_ns = 0 if 2 * first_ns < last_ns else first_ns
    cells: _Cells = {}
    for number, curve in enumerate(curves):
        _draw(cells, number, curve, start_ns, last_ns, columns)
    middle_ns = round((start_ns + last_ns) / 2)
    ends = (
        format_short(start_ns) if start_ns else "0",
        format_short(middle_ns),
        format_short(last_ns) if last_ns else "0",
    )
    return _grid(cells, [curve.name for curve in curves], _PCT_LABELS, ends, width)


def _draw(
    cells: _Cells, number: int, curve: Curve, start_ns: int, last_ns: int, columns: int
) -> None:
    """Mark the cells of a curve, including all rows of a steep increase.

    Cells before its first value and after its last value are not marked.
    """
    before = 0
    for column in range(columns):
        # Use the right edge of the cell, so that the last cell includes the last value.
        value_ns = start_ns + (last_ns - start_ns) * (column + 1) / columns
        if value_ns < curve.values_ns[0]:
            continue
        if before == _ROW_COUNT - 1:
            break
        row = round(curve.pct_at(value_ns) / 100 * (_ROW_COUNT - 1))
        for crossed in range(min(before + 1, row), row + 1):
            cells[crossed, column] = number
        before = row


class RateCurve(Struct):
    """Points of a curve: ascending positive sizes, and the rate at each size."""

    name: str
    sizes: Sequence[float]
    rates: Sequence[float]

    def rate_at(self, size: float) -> float | None:
        """Return the rate at a size (linear in the log of the size), or None outside the curve."""
        if not self.sizes[0] <= size <= self.sizes[-1]:
            return None
        place = bisect_right(self.sizes, size) - 1
        if place == len(self.sizes) - 1:
            return self.rates[-1]
        low, high = self.sizes[place], self.sizes[place + 1]
        share = (math.log(size) - math.log(low)) / (math.log(high) - math.log(low))
        return self.rates[place] * (1 - share) + self.rates[place + 1] * share


def rate_curve_lines(
    curves: Sequence[RateCurve],
    width: int,
    size_text: Callable[[float], str],
    rate_text: Callable[[float], str],
) -> list[Text]:
    """Return a drawing of at most `MAX_CURVES` curves over common axes.

    The size axis is logarithmic; the rate axis starts at 0. Where curves meet, the first one is
    visible.
    """
    top = max(max(curve.rates) for curve in curves)
    labels = {
        row: rate_text(top * row / (_ROW_COUNT - 1)) if row else "0" for row in _LABELLED_ROWS
    }
    columns = _columns(labels, width)
    first = min(curve.sizes[0] for curve in curves)
    last = max(curve.sizes[-1] for curve in curves)
    cells: _Cells = {}
    for number, curve in reversed(list(enumerate(curves))):
        for column in range(columns) if last > first else ():
            share = column / (columns - 1)
            size = first if share == 0 else last if share == 1 else first * (last / first) ** share
            rate = curve.rate_at(size)
            if rate is not None:
                row = round(rate / top * (_ROW_COUNT - 1)) if top > 0 else 0
                cells[row, column] = number
        if curve.sizes[0] == curve.sizes[-1]:
            share = math.log(curve.sizes[0] / first) / math.log(last / first) if last > first else 0
            row = round(curve.rates[0] / top * (_ROW_COUNT - 1)) if top > 0 else 0
            cells[row, round(share * (columns - 1))] = number
    middle = size_text(math.sqrt(first * last)) if last > first else ""
    ends = (size_text(first), middle, size_text(last))
    return _grid(cells, [curve.name for curve in curves], labels, ends, width)


def _columns(labels: Mapping[int, str], width: int) -> int:
    """Return the number of columns for the curves, next to the row labels."""
    return max(min(width - _label_width(labels) - 3, _MAX_WIDTH), _MIN_WIDTH)


def _grid(
    cells: _Cells,
    names: Sequence[str],
    labels: Mapping[int, str],
    ends: tuple[str, str, str],
    width: int,
) -> list[Text]:
    """Return the lines of a drawing. `ends` label start, middle, and end of the axis."""
    label_width = _label_width(labels)
    columns = _columns(labels, width)
    lines = []
    for row in reversed(range(_ROW_COUNT)):
        axis = "┤" if row in labels else "│"
        line = Text(f"{labels.get(row, ''):>{label_width}} {axis}", style="dim")
        for column in range(columns):
            result = cells.get((row, column))
            if result is None:
                line.append(" ")
            else:
                glyph = _ONE if len(names) == 1 else _SEVERAL[result]
                line.append(glyph, style=f"not dim {_STYLES[result % len(_STYLES)]}")
        line.rstrip()
        lines.append(line)
    margin = " " * (label_width + 1)
    lines.append(Text(margin + "└" + "─" * columns, style="dim"))
    first, middle, last = ends
    gap = max(columns - len(first) - len(last), len(middle) + 2)
    lines.append(Text(f"{margin} {first}{middle.center(gap)}{last}", style="dim"))
    if len(names) > 1:
        for number, name in enumerate(names):
            line = Text(margin + " ")
            line.append(_SEVERAL[number], style=_STYLES[number % len(_STYLES)])
            line.append(" " + truncate(printable(name), width - label_width - 4))
            lines.append(line)
    return lines


def _label_width(labels: Mapping[int, str]) -> int:
    return max(map(cell_width, labels.values()))
