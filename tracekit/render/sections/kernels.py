"""The kernels that ran longest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._names_apart import shortened
from tracekit.render._text import printable
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.units import format_duration, format_ms, format_pct, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 50

MAX_KERNELS = 5


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return the top kernels, each once, with the figures of the device on which it took longest.

    The analysis lists the top of every device. Sums over devices of what those lists hold would
    leave out kernels that are on top of one device only; the longest of each is exact.
    """
    if not data.get("kernels"):
        return []
    if full:
        return [
            heading("Kernels"),
            *grid_lines(data["kernels"], None if wide else width, units=True),
        ]
    longest: dict[tuple[str, str], dict[str, Any]] = {}
    rows = data["kernels"].to_dicts()
    for row in sorted(rows, key=lambda row: -row["kernel_ns"]):
        longest.setdefault((row["name"], row["class"]), row)
    shown = list(longest.values())[:MAX_KERNELS]
    devices = {(row["rank"], row["device"]) for row in rows}
    note = "sum of durations" if len(devices) == 1 else "sum of durations on its busiest device"

    decimals = ms_decimals(row["kernel_ns"] for row in shown)
    columns = [
        [f"{format_ms(row['kernel_ns'], decimals)} ms" for row in shown],
        ["–" if r["wall_pct"] is None else f"{format_pct(r['wall_pct'])} %" for r in shown],
        [f"{row['kernel_count']:,} ×" for row in shown],
        [format_duration(row["mean_ns"]) for row in shown],
    ]
    if len(devices) > 1:
        columns.append(["rank ?" if r["rank"] is None else f"rank {r['rank']}" for r in shown])
    out = [heading("Top kernels", f"{note}, wall time's share of the window, count, mean", width)]
    before = aligned(columns)
    room = width - 4 - max(map(len, before), default=0)
    names = shortened([printable(row["name"]) for row in shown], room)
    return out + [Text(f"  {figures}  {name}") for figures, name in zip(before, names, strict=True)]
