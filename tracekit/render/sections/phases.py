"""The phases by the time that is theirs, busy and idle, over all devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._bars import Part, stacked_bar
from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.render.sections._window import pct_text, total_window_ns
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 25

_MAX_BAR = 32
_MIN_BAR = 6
_SHOWN = ("wall_ns", "idle_ns", "exposed_comm_ns")


def lines(data: Mapping[str, Result], width: int, *, full: bool) -> list[Text]:
    """Return one bar per phase: busy, exposed communication, and idle time before its work."""
    if not data.get("phases"):
        return []
    if full:
        return [heading("Phases"), *grid_lines(data["phases"], width, units=True)]
    sums: dict[str, dict[str, int]] = {}
    for row in data["phases"].to_dicts():
        of_phase = sums.setdefault(row["phase"], dict.fromkeys(_SHOWN, 0))
        for column in _SHOWN:
            of_phase[column] += row[column]

    window_ns = total_window_ns(data)
    spans = {phase: found["wall_ns"] + found["idle_ns"] for phase, found in sums.items()}
    decimals = ms_decimals(value for found in sums.values() for value in found.values())
    figures = aligned(
        [
            [pct_text(spans[phase], window_ns) for phase in sums],
            [f"{format_ms(found['wall_ns'], decimals)} ms busy" for found in sums.values()],
            [f"{format_ms(found['idle_ns'], decimals)} idle" for found in sums.values()],
        ]
    )
    labels = [printable(phase) for phase in sums]
    label_width = max(map(cell_width, labels))
    bar_width = min(max(width - label_width - len(figures[0]) - 6, _MIN_BAR), _MAX_BAR)
    longest_ns = max(spans.values()) or 1
    out = [heading("Phases", "busy time and the idle time before it, share of the window")]
    for phase, label, text in zip(sums, labels, figures, strict=True):
        found = sums[phase]
        cells = round(spans[phase] / longest_ns * bar_width)
        bar = stacked_bar(
            [
                Part(found["wall_ns"] - found["exposed_comm_ns"], "█", "green"),
                Part(found["exposed_comm_ns"], "▓", "red"),
                Part(found["idle_ns"], "░", "bright_black"),
            ],
            cells,
        )
        padding = " " * (bar_width - cells)
        out.append(Text.assemble("  ", fit(label, label_width), "  ", bar, padding, "  ", text))
    return out
