"""The grid that curves are drawn into with characters: axes, labels, a letter for each curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from tracekit.render._text import cell_width, printable, shorten

ROW_COUNT = 11
"""Rows of a drawing: 0, a tenth and so on to the top."""

LABELLED_ROWS = (0, 5, 10)
"""The rows that have a label."""

_MAX_WIDTH = 100
_MIN_WIDTH = 20
_ONE = "•"
_SEVERAL = "abcdefghijklmnopqrstuvwxyz"
_STYLES = ("green", "yellow", "cyan", "magenta", "red", "blue")


def most_curves() -> int:
    """Return how many curves one drawing can hold."""
    return len(_SEVERAL)


def grid_columns(labels: Mapping[int, str], width: int) -> int:
    """Return how many columns are left for the curves.

    Args:
        labels: those of the rows that have one.
        width: the most cells that a line may take.
    """
    return max(min(width - _label_width(labels) - 3, _MAX_WIDTH), _MIN_WIDTH)


def grid_lines(
    cells: Mapping[tuple[int, int], int],
    names: Sequence[str],
    labels: Mapping[int, str],
    ends: tuple[str, str, str],
    width: int,
) -> list[Text]:
    """Return the lines of a drawing; with several curves, letters tell them apart.

    Args:
        cells: the number of the curve that is seen in a cell, by row, from below, and column.
        names: of the curves.
        labels: those of the rows that have one.
        ends: what stands below the left end of the axis, its middle and its right end.
        width: the most cells that a line may take.
    """
    label_width = _label_width(labels)
    columns = grid_columns(labels, width)
    lines = []
    for row in reversed(range(ROW_COUNT)):
        axis = "┤" if row in labels else "│"
        line = Text(f"{labels.get(row, ''):>{label_width}} {axis}", style="dim")
        for column in range(columns):
            found = cells.get((row, column))
            if found is None:
                line.append(" ")
            else:
                glyph = _ONE if len(names) == 1 else _SEVERAL[found]
                line.append(glyph, style=f"not dim {_STYLES[found % len(_STYLES)]}")
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
            line.append(" " + shorten(printable(name), width - label_width - 4))
            lines.append(line)
    return lines


def _label_width(labels: Mapping[int, str]) -> int:
    return max(map(cell_width, labels.values()))
