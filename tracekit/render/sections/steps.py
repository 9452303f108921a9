"""The steps that the program marked, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import shorten
from tracekit.render.sections._heading import heading
from tracekit.render.sections._share import pct_text
from tracekit.units import format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 60


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return count, mean, shortest and longest step, and the device work outside of steps."""
    if not data.get("step_totals"):
        return []
    if full:
        return [heading("Steps"), *grid_lines(data["steps"], None if wide else width, units=True)]
    (row,) = data["step_totals"].to_dicts()
    parts = []
    if row["step_count"]:
        ranks = row["rank_count"]
        parts.append(f"{row['step_count']:,}" + (f" on {ranks:,} ranks" if ranks > 1 else ""))
        if row["step_count"] == 1:
            parts.append(format_duration(row["max_span_ns"]))
        else:
            parts.append(f"mean {format_duration(row['mean_span_ns'])}")
            parts.append(f"min {format_duration(row['min_span_ns'])}")
            parts.append(f"max {format_duration(row['max_span_ns'])}")
    if row["outside_ns"]:
        parts.append(f"{pct_text(row['outside_pct'])} of busy time outside")
    text = " · ".join(parts)
    if row["range_span_ns"]:
        # As long as its range on the CPU. What does not fit is in the table of `--full`.
        which = "device work" if row["step_count"] == 1 else "device work of the last"
        longer = f"{text} · {which} {format_duration(row['range_work_ns'])}"
        text = longer if len(longer) <= width - 7 else text
    line = heading("Steps")
    line.append("  " + shorten(text, width - 7))
    return [line]
