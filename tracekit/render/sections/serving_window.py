"""The steady state of a serving engine: which steps, how full, how fast, one line per device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import shorten
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._label import device_label
from tracekit.units import format_duration, format_pct

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 17

MAX_DEVICES = 4
_KINDS = ("prefill", "mixed", "decode")


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one line per device that has a steady state."""
    if not data.get("serving_window"):
        return []
    if full:
        return [
            heading("Steady state"),
            *grid_lines(data["serving_window"], None if wide else width, units=True),
        ]
    rows = [row for row in data["serving_window"].to_dicts() if row["reason"] is None]
    out = []
    for row in rows[:MAX_DEVICES]:
        line = heading("Steady state")
        if len(rows) > 1:
            line.append(f"  {device_label(row)}")
        line.append("  " + shorten(_about(row), width - line.cell_len - 2), style="not bold")
        out.append(line)
    return out + more(len(rows) - len(out), "device", "devices")


def _about(row: Mapping[str, Any]) -> str:
    kinds = [
        f"{row[f'{kind}_step_count']:,} {kind}" for kind in _KINDS if row[f"{kind}_step_count"]
    ]
    parts = [
        f"steps {row['first_step']}–{row['last_step']} ({', '.join(kinds)})",
        format_duration(row["dur_ns"]),
        f"up to {row['max_running_count']:,} running",
    ]
    if row["decode_tokens_per_s"] is not None:
        parts.append(f"{row['decode_tokens_per_s']:,.1f} decode tokens/s")
    if row["idle_pct"] is not None:
        parts.append(f"idle {format_pct(row['idle_pct'])} %")
    return " · ".join(parts)
