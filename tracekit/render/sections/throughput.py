"""How much a serving engine answered, in one line per run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import shorten
from tracekit.render.sections._heading import heading
from tracekit.units import format_duration, format_pct

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 14


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return requests and tokens a second, and over which interval."""
    if not data.get("throughput"):
        return []
    if full:
        return [
            heading("Throughput"),
            *grid_lines(data["throughput"], None if wide else width, units=True),
        ]
    out = []
    for row in data["throughput"].to_dicts():
        parts = [f"{row['ok_count']:,} of {row['request_count']:,} requests ok"]
        if row["requests_per_s"] is not None:
            parts.insert(0, f"{row['requests_per_s']:,.1f} requests/s")
            if row["output_tokens_per_s"] is not None:
                parts.insert(0, f"{row['output_tokens_per_s']:,.1f} output tokens/s")
            parts.append(f"in {format_duration(row['interval_ns'])}")
        if row["outcome"] == "incomplete":
            parts.append(f"only {format_pct(row['answered_pct'])} of the load")
        line = heading("Throughput")
        line.append("  " + shorten(" · ".join(parts), width - line.cell_len - 2))
        out.append(line)
    return out
