"""Curves of distribution functions, drawn with characters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.text import Text

from tracekit.render._curve_grid import LABELLED_ROWS, ROW_COUNT, grid_columns, grid_lines
from tracekit.units import format_duration

_LABELS = {row: f"{row * 10} %" for row in LABELLED_ROWS}


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
    columns = grid_columns(_LABELS, width)
    last_ns = max(curve.values_ns[-1] for curve in curves)
    first_ns = min(curve.values_ns[0] for curve in curves)
    # From zero, unless everything would stand at the right edge.
    start_ns = 0 if 2 * first_ns < last_ns else first_ns
    cells: dict[tuple[int, int], int] = {}
    for number, curve in enumerate(curves):
        _draw(cells, number, curve, start_ns, last_ns, columns)
    middle_ns = round((start_ns + last_ns) / 2)
    ends = (
        format_duration(start_ns) if start_ns else "0",
        format_duration(middle_ns),
        format_duration(last_ns) if last_ns else "0",
    )
    return grid_lines(cells, [curve.name for curve in curves], _LABELS, ends, width)


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
