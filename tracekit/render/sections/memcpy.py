"""Copies by direction: how much, how long, how fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.units import format_bytes, format_bytes_per_s, format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 70

_MAX_LABEL = 20


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one line per direction; bytes and bandwidth are of copies whose bytes are known."""
    if not data.get("memcpy_totals"):
        return []
    if full:
        return [heading("Copies"), *grid_lines(data["memcpy"], None if wide else width, units=True)]
    rows = data["memcpy_totals"].to_dicts()
    rates = [row["bandwidth_bytes_per_s"] for row in rows]
    figures = aligned(
        [
            [format_duration(row["kernel_ns"]) for row in rows],
            [f"{row['copy_count']:,} ×" for row in rows],
            ["–" if row["bytes"] is None else format_bytes(row["bytes"]) for row in rows],
            ["–" if rate is None else format_bytes_per_s(rate) for rate in rates],
        ]
    )
    labels = [printable(row["direction"].removeprefix("memcpy_")) for row in rows]
    label_width = min(max(map(cell_width, labels)), _MAX_LABEL)
    out = [heading("Copies", "sum of durations, count, bytes, bandwidth (GB = 1e9 bytes)", width)]
    for label, text, row in zip(labels, figures, rows, strict=True):
        line = Text(f"  {fit(label, label_width)}  {text}")
        if 0 < row["sized_count"] < row["copy_count"]:
            note = f"  (bytes known of {row['sized_count']:,})"
            line.append(shorten(note, width - cell_width(line.plain)), style="dim")
        out.append(line)
    return out
