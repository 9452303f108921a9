"""The collectives by class and group: how long, how much of it exposed, how fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._share import pct_text
from tracekit.units import format_bytes, format_bytes_per_s, format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 42

MAX_KINDS = 5
_MAX_LABEL = 32
_CPU_NOTE = "on a CPU, time counts both the call and the backend's span; bandwidth is of the span"


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one line per class and group, the longest first; shares are of the window.

    Bandwidths are of the collectives whose message size is known; bus bandwidth is a dash unless
    the size of every group is. On a CPU a last line tells what time and bandwidth are of.
    """
    if not data.get("communication_totals"):
        return []
    if full:
        grid = grid_lines(data["communication"], None if wide else width, units=True)
        return [heading("Communication"), *grid, *_footnote(data["communication"], width)]
    rows = data["communication_totals"].to_dicts()
    shown = rows[:MAX_KINDS]
    decimals = ms_decimals(row["kernel_ns"] for row in rows)
    figures = aligned(
        [
            [f"{row['call_count']:,} ×" for row in shown],
            [f"{format_ms(row['kernel_ns'], decimals)} ms" for row in shown],
            [pct_text(row["wall_pct"]) for row in shown],
            [pct_text(row["overlapped_pct"]) for row in shown],
            [_or_dash(row["message_bytes"], format_bytes) for row in shown],
            [_or_dash(row["algorithm_bytes_per_s"], format_bytes_per_s) for row in shown],
            [_or_dash(row["bus_bytes_per_s"], format_bytes_per_s) for row in shown],
        ]
    )
    labels = [_label(row) for row in shown]
    label_width = min(max(map(cell_width, labels)), _MAX_LABEL)
    note = "count, kernel time, exposed share of the window, hidden, bytes, bandwidth, bus"
    out = [heading("Communication", note, width)]
    for row, label, text in zip(shown, labels, figures, strict=True):
        line = Text(f"  {fit(label, label_width)}  {text}")
        room = width - cell_width(line.plain) - 2
        if row["reasons"] and room >= len("its call"):
            reasons = " · ".join(map(printable, row["reasons"]))
            line.append("  " + shorten(reasons, room), style="dim")
        out.append(line)
    out.extend(more(len(rows) - len(shown), "kind", "kinds"))
    out.extend(_footnote(data["communication"], width))
    return out


def _footnote(result: Result, width: int) -> list[Text]:
    if "cpu" not in result.column("device"):
        return []
    return [Text("  " + shorten(_CPU_NOTE, width - 2), style="dim")]


def _label(row: Mapping[str, Any]) -> str:
    """Return the name of the class and, where the calls name it, of the group."""
    label = row["class"].removeprefix("comm_")
    if row["pg_name"] is not None:
        label += f" (group {row['pg_name']})"
    return printable(label)


def _or_dash(value: float | None, form: Callable[[float], str]) -> str:
    return "–" if value is None else form(value)
