"""One bar per device: compute, exposed communication and copies, idle; together its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.palette import KIND
from tracekit.render._bars import Part, stacked_bar
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._label import device_label
from tracekit.render.sections._share import pct_text
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 20

MAX_DEVICES = 16
MAX_GROUPS = 6
# Up to so many devices there is room for a second line with the milliseconds.
_MAX_WITH_MS = 4
_MIN_BAR = 4


@dataclass(frozen=True, slots=True)
class _Share:
    column: str
    pct_column: str
    title: str
    glyph: str
    style: str


_SHARES = (
    _Share("compute_ns", "compute_pct", "compute", "█", KIND["compute"].terminal),
    _Share("exposed_comm_ns", "exposed_comm_pct", "exposed comm", "▓", KIND["comm"].terminal),
    _Share(
        "exposed_memcpy_ns", "exposed_memcpy_pct", "exposed memcpy", "▒", KIND["memcpy"].terminal
    ),
    _Share("idle_ns", "idle_pct", "idle", "░", KIND["idle"].terminal),
)


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return a legend and one bar per device; with few devices also a line of shares in ms.

    Of many devices, one bar for each group of ranks that behave alike.
    """
    del wide
    if not data.get("timeline"):
        return []
    rows = data["timeline"].to_dicts()
    if len(rows) > MAX_DEVICES and not full and data.get("rank_groups"):
        return _groups(data["rank_groups"].to_dicts(), width)
    shown = rows if full else rows[:MAX_DEVICES]
    labels = ["", *(device_label(row) for row in shown)]
    label_width = max(map(cell_width, labels))
    in_ms = [_in_ms(row) for row in shown]
    with_ms = len(rows) <= _MAX_WITH_MS and 4 + max(map(len, in_ms)) <= width
    columns = [_windows(shown)]
    if not with_ms:
        columns += [_pcts(share, shown) for share in _SHARES]
    figures = aligned(columns)
    bar_width = max(width - label_width - len(figures[0]) - 6, _MIN_BAR)

    out = [_legend()]
    if not with_ms:
        out.append(Text(" " * (label_width + bar_width + 6) + figures[0], style="dim"))
    for row, label, text, shares in zip(shown, labels[1:], figures[1:], in_ms, strict=True):
        bar = stacked_bar([Part(row[s.column], s.glyph, s.style) for s in _SHARES], bar_width)
        out.append(Text.assemble("  ", fit(label, label_width), "  ", bar, "  ", text))
        if with_ms:
            out.append(Text.assemble("    ", shares))
    out.extend(more(len(rows) - len(shown), "device", "devices"))
    return out


def _groups(rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    """Return a bar of means for each group of ranks that behave alike, the largest first."""
    shown = rows[:MAX_GROUPS]
    labels = [_group_label(row) for row in shown]
    label_width = max(map(cell_width, labels))
    figures = aligned([_windows(shown), *(_pcts(share, shown) for share in _SHARES)])
    bar_width = max(width - label_width - len(figures[0]) - 6, _MIN_BAR)
    out = [_legend()]
    out.append(Text(" " * (label_width + bar_width + 6) + figures[0], style="dim"))
    for row, label, text in zip(shown, labels, figures[1:], strict=True):
        bar = stacked_bar([Part(row[s.column], s.glyph, s.style) for s in _SHARES], bar_width)
        out.append(Text.assemble("  ", fit(label, label_width), "  ", bar, "  ", text))
        if row["alike"] and row["group_number"] > 1:
            out.append(Text(shorten(f"    {printable(row['alike'])}", width), style="dim"))
    out.extend(more(len(rows) - len(shown), "group of ranks", "groups of ranks"))
    return out


def _group_label(row: Mapping[str, Any]) -> str:
    example = "?" if row["example_rank"] is None else row["example_rank"]
    if row["rank_count"] == 1:
        return f"rank {example} alone"
    return f"{row['rank_count']:,} alike, as rank {example}"


def _legend() -> Text:
    legend = heading("Timeline")
    for share in _SHARES:
        legend.append("   ").append(share.glyph, style=share.style).append(f" {share.title}")
    return legend


def _windows(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    decimals = ms_decimals(row["window_ns"] for row in rows)
    return ["window", *(f"{format_ms(row['window_ns'], decimals)} ms" for row in rows)]


def _pcts(share: _Share, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    title = share.title.removeprefix("exposed ")
    return [title, *(pct_text(row[share.pct_column]) for row in rows)]


def _in_ms(row: Mapping[str, Any]) -> Text:
    decimals = ms_decimals(row[share.column] for share in _SHARES)
    figures = Text()
    for position, share in enumerate(_SHARES):
        amount = row[share.column]
        figures.append("   " if position else "")
        figures.append(pct_text(row[share.pct_column]), style="bold")
        figures.append(f" {share.glyph} ", style=share.style)
        figures.append(f"{format_ms(amount, decimals)} ms")
    return figures
