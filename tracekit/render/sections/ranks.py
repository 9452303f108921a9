"""Many ranks at once: how each part of their time is spread, and a strip of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._strip import marks, strip
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.render.sections.timeline import MAX_DEVICES
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 21

_FIGURES = ("min", "median", "p95", "max")
_STRIPS = (("at work", "own_ns"), ("waiting", "comm_wait_ns"))
_NAMES = {
    "exposed_comm": "exposed comm",
    "exposed_memcpy": "exposed memcpy",
    "own": "at work",
    "comm_wait": "waiting",
}


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return the distribution of each part and a strip, where there are too many ranks to list."""
    result = data.get("rank_distribution")
    if not result or not data.get("rank_summary"):
        return []
    summary = data["rank_summary"]
    if len(summary.rows) <= MAX_DEVICES:
        return []
    rows = result.to_dicts()
    if full:
        grids = [grid_lines(one, None if wide else width, units=True) for one in (result, summary)]
        return [heading("Ranks"), *grids[0], Text(), *grids[1]]
    ranks = summary.to_dicts()
    out = [heading("Ranks", _about(ranks), width)]
    out += _distribution(rows, width)
    return [*out, *_strips(ranks, width)]


def _about(ranks: Sequence[Mapping[str, Any]]) -> str:
    nodes = {row["node"] for row in ranks if row["node"] is not None}
    where = f" on {len(nodes):,} nodes" if len(nodes) > 1 else ""
    count, size = ranks[0]["rank_count"], ranks[0]["world_size"]
    of = "" if size in (None, count) else f" of {size:,}"
    return f"{count:,}{of}{where}; each figure with the rank that has it"


def _distribution(rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    decimals = ms_decimals(row["max_ns"] for row in rows)
    columns = []
    for figure in _FIGURES:
        columns.append([figure, *(f"{format_ms(row[f'{figure}_ns'], decimals)}" for row in rows)])
        columns.append(["", *(_rank(row[f"{figure}_rank"]) for row in rows)])
    figures = aligned(columns)
    labels = ["ms", *(_label(row["part"]) for row in rows)]
    label_width = max(map(cell_width, labels))
    return [
        Text(shorten(f"  {fit(label, label_width)}  {text}", width), style="" if place else "dim")
        for place, (label, text) in enumerate(zip(labels, figures, strict=True))
    ]


def _label(part: str) -> str:
    return printable(_NAMES.get(part, part.removeprefix("phase/")))


def _rank(rank: int | None) -> str:
    return "#?" if rank is None else f"#{rank}"


def _strips(ranks: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    """Return a strip for each figure, and marks below where a rank stands out."""
    shown = [(name, column) for name, column in _STRIPS if any(row[column] for row in ranks)]
    if not shown:
        return []
    label_width = max(len(name) for name, _ in shown)
    room = max(width - label_width - 4, 1)
    marked = [row["is_outlier"] is True for row in ranks]
    out = []
    for name, column in shown:
        cells = strip([row[column] for row in ranks], marked, room)
        out.append(Text.assemble("  ", fit(name, label_width), "  ", cells))
    if any(marked):
        out.append(Text.assemble(" " * (label_width + 4), marks(marked, room)))
    ends = f"ranks {_rank(ranks[0]['rank'])} to {_rank(ranks[-1]['rank'])}"
    each = "" if len(ranks) <= room else ", the highest of each cell's ranks"
    note = f"{' ' * (label_width + 4)}{ends}{each}; a full block is the longest time"
    return [*out, Text(shorten(note, width), style="dim")]
