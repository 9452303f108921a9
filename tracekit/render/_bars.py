"""Bars of block characters whose cells add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a stacked bar; the glyph tells it apart without colour."""

    amount: float
    glyph: str
    style: str


def stacked_bar(parts: Sequence[Part], width: int) -> Text:
    """Return a bar of exactly `width` cells, the largest remainders rounded up."""
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
    """Return how many of `width` cells an amount takes where the longest one takes them all."""
    return round(amount / longest * width) if longest else 0
