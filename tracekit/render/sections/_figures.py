"""Columns of figures that stand to the right of a bar or to the left of a name."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "  "


def aligned(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return one text per row with every column set to the right.

    Args:
        columns: the cells of each column; all columns have the same number of rows.
    """
    widths = [max(map(len, column), default=0) for column in columns]
    return [
        _GAP.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in zip(*columns, strict=True)
    ]
