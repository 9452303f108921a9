"""That the kernels of a run were not recorded, why, and what the host did meanwhile."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._share import pct_text
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 12

MAX_OPS = 8


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return a heading, the reason of each rank, and what the host did, the longest first."""
    if not data.get("unrecorded"):
        return []
    rows = data["unrecorded"].to_dicts()
    title = "Kernels were not recorded"
    if all(row["launch_count"] is None for row in rows):
        title = "Work of devices is not known"
    out = [Text(title, style="bold yellow")]
    for reason, ranks in _reasons(rows).items():
        where = "" if len(_ranks(rows)) == 1 else f"{_rank_text(ranks)}: "
        out += [Text(f"  {line}") for line in textwrap.wrap(where + reason, max(width - 2, 20))]
    if full:
        return [*out, *grid_lines(data["unrecorded"], None if wide else width, units=True)]
    ops = data["unrecorded_totals"].to_dicts()
    shown = ops[:MAX_OPS]
    if not shown:
        return out
    decimals = ms_decimals(row["host_ns"] for row in ops)
    figures = aligned(
        [
            [f"{format_ms(row['host_ns'], decimals)} ms" for row in shown],
            [pct_text(row["host_pct"]) for row in shown],
            [f"{row['op_count']:,} ×" for row in shown],
            [row["kind"] for row in shown],
        ]
    )
    out.append(heading("  What the host did", "on all threads, ops inside of an op apart", width))
    for row, text in zip(shown, figures, strict=True):
        out.append(Text(shorten(f"    {text}  {printable(row['name'])}", width)))
    out.extend(more(len(ops) - len(shown), "op", "ops"))
    return out


def _ranks(rows: Sequence[Mapping[str, Any]]) -> set[int | None]:
    return {row["rank"] for row in rows}


def _reasons(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[int | None]]:
    """Return the ranks by what is said of them."""
    found: dict[str, list[int | None]] = {}
    for row in rows:
        reason = row["reason"].removeprefix("kernels were not recorded: ")
        ranks = found.setdefault(printable(reason), [])
        if row["rank"] not in ranks:
            ranks.append(row["rank"])
    return found


def _rank_text(ranks: Sequence[int | None]) -> str:
    first = "rank ?" if ranks[0] is None else f"rank {ranks[0]}"
    return first if len(ranks) == 1 else f"{first} and {len(ranks) - 1} more"
