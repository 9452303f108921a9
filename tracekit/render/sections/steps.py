"""The steps that the program marked, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import shorten
from tracekit.render.sections._heading import heading
from tracekit.render.sections._window import pct_text
from tracekit.units import format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 60


def lines(data: Mapping[str, Result], width: int, *, full: bool) -> list[Text]:
    """Return count, mean, shortest and longest step, and the device work outside of steps."""
    if not data.get("steps"):
        return []
    if full:
        return [heading("Steps"), *grid_lines(data["steps"], width, units=True)]
    rows = data["steps"].to_dicts()
    # On the device: the host may run ahead, and then its ranges measure only itself.
    durations = {
        (row["rank"], row["device"], row["step"]): row["span_ns"]
        for row in rows
        if row["step"] is not None and row["span_ns"] is not None
    }
    parts = []
    if durations:
        lengths = list(durations.values())
        ranks = len({rank for rank, _, _ in durations})
        parts.append(f"{len(lengths):,}" + (f" on {ranks:,} ranks" if ranks > 1 else ""))
        if len(lengths) == 1:
            parts.append(format_duration(lengths[0]))
        else:
            parts.append(f"mean {format_duration(sum(lengths) / len(lengths))}")
            parts.append(f"min {format_duration(min(lengths))}")
            parts.append(f"max {format_duration(max(lengths))}")
    outside_ns = sum(row["wall_ns"] for row in rows if row["step"] is None)
    if outside_ns:
        busy_ns = sum(row["wall_ns"] for row in rows)
        parts.append(f"{pct_text(outside_ns, busy_ns)} of busy time outside")
    line = heading("Steps")
    line.append("  " + shorten(" · ".join(parts), width - 7))
    return [line]
