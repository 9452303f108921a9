"""Curves of distribution functions, drawn with characters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.text import Text

from tracekit.render._text import printable, shorten
from tracekit.units import format_duration

ROW_COUNT = 11
"""Rows of a drawing: 0 %, 10 % and so on to 100 %."""

_MAX_WIDTH = 100
_MIN_WIDTH = 20
_LABELLED = {0, 5, 10}
_ONE = "•"
_SEVERAL = "abcdefghijklmnopqrstuvwxyz"
_STYLES = ("green", "yellow", "cyan", "magenta", "red", "blue")


@dataclass(frozen=True, slots=True)
class Curve:
    """A distribution function: how many percent of the values are at most so much, ascending."""

    name: str
    values_ns: list[int] = field(default_factory=list)
    pcts: list[float] = field(default_factory=list)

    def pct_at(self, value_ns: float) -> float:
        """Return how many percent of the values are at most this."""
        position = bisect_right(self.values_ns, value_ns)
        return self.pcts[position - 1] if position else 0.0


def curve_lines(curves: Sequence[Curve], width: int) -> list[Text]:
    """Return the drawing of curves over a common axis; with several, letters tell them apart.

    Args:
        curves: at most as many as there are letters, each with a point.
        width: the most cells that a line may take.
    """
    label_width = len("100 % ┤")
    columns = max(min(width - label_width - 1, _MAX_WIDTH), _MIN_WIDTH)
    last_ns = max(curve.values_ns[-1] for curve in curves)
    first_ns = min(curve.values_ns[0] for curve in curves)
    # From zero, unless everything would stand at the right edge.
    start_ns = 0 if 2 * first_ns < last_ns else first_ns
    cells: dict[tuple[int, int], int] = {}
    for number, curve in enumerate(curves):
        _draw(cells, number, curve, start_ns, last_ns, columns)

    out = []
    for row in reversed(range(ROW_COUNT)):
        label = f"{row * 10} %" if row in _LABELLED else ""
        axis = "┤" if row in _LABELLED else "│"
        line = Text(f"{label:>5} {axis}", style="dim")
        for column in range(columns):
            found = cells.get((row, column))
            if found is None:
                line.append(" ")
            else:
                glyph = _ONE if len(curves) == 1 else _SEVERAL[found]
                line.append(glyph, style=f"not dim {_STYLES[found % len(_STYLES)]}")
        line.rstrip()
        out.append(line)
    out.append(Text(" " * (label_width - 1) + "└" + "─" * columns, style="dim"))
    ends = [format_duration(value) if value else "0" for value in (start_ns, last_ns)]
    middle = format_duration(round((start_ns + last_ns) / 2))
    gap = max(columns - len(ends[0]) - len(ends[1]), len(middle) + 2)
    out.append(Text(" " * label_width + ends[0] + middle.center(gap) + ends[1], style="dim"))
    if len(curves) > 1:
        for number, curve in enumerate(curves):
            line = Text(" " * label_width)
            line.append(_SEVERAL[number], style=_STYLES[number % len(_STYLES)])
            line.append(" " + shorten(printable(curve.name), width - label_width - 2))
            out.append(line)
    return out


def most_curves() -> int:
    """Return how many curves one drawing can hold."""
    return len(_SEVERAL)


def _draw(
    cells: dict[tuple[int, int], int],
    number: int,
    curve: Curve,
    start_ns: int,
    last_ns: int,
    columns: int,
) -> None:
    """Mark the cells of a curve; where it climbs by more than a row, all rows of the climb.

    What lies before its first value and behind its last one is left to other curves.
    """
    before = 0
    for column in range(columns):
        # The right edge of the cell, so that the last cell holds the last value.
        value_ns = start_ns + (last_ns - start_ns) * (column + 1) / columns
        if value_ns < curve.values_ns[0]:
            continue
        if before == ROW_COUNT - 1:
            break
        row = round(curve.pct_at(value_ns) / 100 * (ROW_COUNT - 1))
        for crossed in range(min(before + 1, row), row + 1):
            cells[crossed, column] = number
        before = row
