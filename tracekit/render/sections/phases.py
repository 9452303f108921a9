"""The phases by the time that is theirs, busy and idle, over all devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.palette import KIND
from tracekit.render._bars import Part, cells_of, stacked_bar
from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.render.sections._share import pct_text
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 25

_MAX_BAR = 32
_MIN_BAR = 6
_SHOWN = ("wall_ns", "idle_ns", "exposed_comm_ns")


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one bar per phase: busy, exposed communication, and idle time before its work."""
    if not data.get("phase_totals"):
        return []
    if full:
        return [heading("Phases"), *grid_lines(data["phases"], None if wide else width, units=True)]
    rows = data["phase_totals"].to_dicts()
    decimals = ms_decimals(row[column] for row in rows for column in _SHOWN)
    figures = aligned(
        [
            [pct_text(row["span_pct"]) for row in rows],
            [f"{format_ms(row['wall_ns'], decimals)} ms busy" for row in rows],
            [f"{format_ms(row['idle_ns'], decimals)} idle" for row in rows],
        ]
    )
    labels = [printable(row["phase"]) for row in rows]
    label_width = max(map(cell_width, labels))
    bar_width = min(max(width - label_width - len(figures[0]) - 6, _MIN_BAR), _MAX_BAR)
    longest_ns = max(row["span_ns"] for row in rows)
    out = [heading("Phases", "busy time and the idle time before it, share of the window")]
    for row, label, text in zip(rows, labels, figures, strict=True):
        cells = cells_of(row["span_ns"], longest_ns, bar_width)
        bar = stacked_bar(
            [
                Part(row["covered_ns"], "█", KIND["compute"].terminal),
                Part(row["exposed_comm_ns"], "▓", KIND["comm"].terminal),
                Part(row["idle_ns"], "░", KIND["idle"].terminal),
            ],
            cells,
        )
        padding = " " * (bar_width - cells)
        out.append(Text.assemble("  ", fit(label, label_width), "  ", bar, padding, "  ", text))
    return out
