"""What prefill, decode and mixed steps were spent on, one line per phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.render.sections._share import pct_text
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 31


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return the kinds of work of each phase over all devices, the longest first."""
    if not data.get("serving_module_totals"):
        return []
    if full:
        return [
            heading("Serving"),
            *grid_lines(data["serving_modules"], None if wide else width, units=True),
        ]
    phases: dict[str, list[dict[str, Any]]] = {}
    for row in data["serving_module_totals"].to_dicts():
        phases.setdefault(row["phase"], []).append(row)
    if not phases:
        return []
    totals = [tasks[0]["phase_wall_ns"] for tasks in phases.values()]
    decimals = ms_decimals(totals)
    figures = aligned([[f"{format_ms(total, decimals)} ms" for total in totals]])
    label_width = max(map(cell_width, phases))
    out = [heading("Serving", "share of each phase's time, idle included", width)]
    for (phase, tasks), text in zip(phases.items(), figures, strict=True):
        shares = [f"{_label(row)} {pct_text(row['phase_pct'])}" for row in tasks if row["wall_ns"]]
        start = f"  {fit(phase, label_width)}  {text}  "
        out.append(Text(start + shorten(" · ".join(shares), width - cell_width(start))))
    return out


def _label(row: Mapping[str, Any]) -> str:
    """Return the name of a kind of work; what is `other` says other what."""
    task = printable(row["task"])
    return f"other {row['task_group']}" if task == "other" else task
