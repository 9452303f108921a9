"""Bars of block characters that add up to their width, and strips with one block per rank."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.text import Text

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_BLOCKS = "▁▂▃▄▅▆▇█"
_MARK = "▲"


class Part(Struct, frozen=True):
    """One part of a stacked bar; its glyph identifies it without color."""

    amount: float
    glyph: str
    style: str


def stacked_bar(parts: Sequence[Part], width: int) -> Text:
    """Return a bar of exactly `width` cells, rounded by largest remainder."""
    total = sum(max(part.amount, 0) for part in parts)
    bar = Text()
    if total <= 0 or width < 1:
        return bar.append(" " * max(width, 0))
    exact = [max(part.amount, 0) * width / total for part in parts]
    cells = [int(share) for share in exact]
    by_remainder = sorted(range(len(parts)), key=lambda i: cells[i] - exact[i])
    for index in by_remainder[: width - sum(cells)]:
        cells[index] += 1
    for part, count in zip(parts, cells, strict=True):
        bar.append(part.glyph * count, style=part.style)
    return bar


def share_bar(share_pct: float | None, width: int, style: str = "") -> Text:
    """Return a bar of `width` cells, filled to a share (0 to 100) in eighths of a cell."""
    share_pct = share_pct or 0.0
    eighths = round(min(max(share_pct, 0.0), 100.0) * width * 8 / 100)
    if share_pct > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return Text(drawn.ljust(width), style=style)


def cells_of(amount: float, longest: float, width: int) -> int:
    """Return the cells of an amount if `longest` takes all `width` cells."""
    return round(amount / longest * width) if longest else 0


def cells_of_ranks(count: int, width: int) -> list[range]:
    """Return the ranks of each cell of a strip, which together cover `count` ranks."""
    cells = max(min(count, width), 1)
    return [range(cell * count // cells, (cell + 1) * count // cells) for cell in range(cells)]


def strip(values: Sequence[float | None], marked: Sequence[bool], width: int) -> Text:
    """Return a strip; a full block is the largest value, and a blank is 0 or None.

    `values` has one value per rank. A cell for several ranks shows the largest. `marked` has
    whether each rank is highlighted.
    """
    largest = max((value for value in values if value is not None), default=0)
    row = Text()
    for cell in cells_of_ranks(len(values), width):
        known = [value for rank in cell if (value := values[rank]) is not None]
        style = "bold red" if any(marked[rank] for rank in cell) else ""
        row.append(_block(max(known), largest) if known else " ", style=style)
    return row


def marks(marked: Sequence[bool], width: int) -> Text:
    """Return a line with a mark below each cell that has a highlighted rank."""
    row = Text(style="bold red")
    for cell in cells_of_ranks(len(marked), width):
        row.append(_MARK if any(marked[rank] for rank in cell) else " ")
    return row


def _block(value: float, largest: float) -> str:
    place = int(value * len(_BLOCKS) / largest) if largest else 0
    return _BLOCKS[min(place, len(_BLOCKS) - 1)]
