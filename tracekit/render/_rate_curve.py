"""Rates over sizes, drawn with characters: sizes double from mark to mark, rates begin at 0."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from tracekit.render._curve_grid import LABELLED_ROWS, ROW_COUNT, grid_columns, grid_lines


@dataclass(slots=True)
class RateCurve:
    """Points of a curve: sizes above 0, ascending, and the rate at each."""

    name: str
    sizes: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def rate_at(self, size: float) -> float | None:
        """Return the rate at a size, straight between points; None beside the curve."""
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
    """Return the drawing of curves over common axes; with several, letters tell them apart.

    Where curves meet, the first one is seen.

    Args:
        curves: at most as many as there are letters, each with a point.
        width: the most cells that a line may take.
        size_text: writes a size.
        rate_text: writes a rate.
    """
    top = max(max(curve.rates) for curve in curves)
    labels = {row: rate_text(top * row / (ROW_COUNT - 1)) if row else "0" for row in LABELLED_ROWS}
    columns = grid_columns(labels, width)
    first = min(curve.sizes[0] for curve in curves)
    last = max(curve.sizes[-1] for curve in curves)
    cells: dict[tuple[int, int], int] = {}
    for number, curve in reversed(list(enumerate(curves))):
        for column in range(columns) if last > first else ():
            share = column / (columns - 1)
            size = first if share == 0 else last if share == 1 else first * (last / first) ** share
            rate = curve.rate_at(size)
            if rate is not None:
                row = round(rate / top * (ROW_COUNT - 1)) if top > 0 else 0
                cells[row, column] = number
        if curve.sizes[0] == curve.sizes[-1]:
            share = math.log(curve.sizes[0] / first) / math.log(last / first) if last > first else 0
            row = round(curve.rates[0] / top * (ROW_COUNT - 1)) if top > 0 else 0
            cells[row, round(share * (columns - 1))] = number
    middle = size_text(math.sqrt(first * last)) if last > first else ""
    ends = (size_text(first), middle, size_text(last))
    return grid_lines(cells, [curve.name for curve in curves], labels, ends, width)
