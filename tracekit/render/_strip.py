"""A row of block characters, one for each of many ranks, or for as many as a cell has to hold."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

_BLOCKS = "▁▂▃▄▅▆▇█"
_MARK = "▲"


def cells_of_ranks(count: int, width: int) -> list[range]:
    """Return which of `count` ranks each cell stands for; all of them, in order."""
    cells = max(min(count, width), 1)
    return [range(cell * count // cells, (cell + 1) * count // cells) for cell in range(cells)]


def strip(values: Sequence[float | None], marked: Sequence[bool], width: int) -> Text:
    """Return a strip: a full block is the largest value, and nothing is 0.

    A cell that stands for several ranks shows the largest value of them.

    Args:
        values: of the ranks in their order; None is blank.
        marked: which of them stand out.
        width: the most cells.
    """
    largest = max((value for value in values if value is not None), default=0)
    row = Text()
    for cell in cells_of_ranks(len(values), width):
        known = [value for rank in cell if (value := values[rank]) is not None]
        style = "bold red" if any(marked[rank] for rank in cell) else ""
        row.append(_block(max(known), largest) if known else " ", style=style)
    return row


def marks(marked: Sequence[bool], width: int) -> Text:
    """Return a row with a mark below each cell of a strip in which a rank stands out."""
    row = Text(style="bold red")
    for cell in cells_of_ranks(len(marked), width):
        row.append(_MARK if any(marked[rank] for rank in cell) else " ")
    return row


def _block(value: float, largest: float) -> str:
    place = int(value * len(_BLOCKS) / largest) if largest else 0
    return _BLOCKS[min(place, len(_BLOCKS) - 1)]
