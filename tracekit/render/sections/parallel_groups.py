"""How the run is split over its ranks: groups, pipeline stages, experts, clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._bars import share_bar
from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._share import pct_text
from tracekit.render.sections.timeline import MAX_DEVICES
from tracekit.units import format_bytes_per_s, format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 23

MAX_STAGES = 16
MAX_CLOCKS = 4
_BAR = 20
_PARTS = (
    ("parallel_groups", "Parallel groups"),
    ("pipeline_bubbles", "Pipeline"),
    ("expert_balance", "Experts"),
    ("clock_offsets", "Clocks"),
)


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return a line for each kind of group, for each stage, and for experts and clocks."""
    found = {name: data[name] for name, _ in _PARTS if data.get(name) and data[name].rows}
    out: list[Text] = []
    for name, title in _PARTS:
        if name not in found:
            continue
        if full:
            out += [heading(title), *grid_lines(found[name], None if wide else width, units=True)]
        else:
            out += _DRAWN[name](found[name].to_dicts(), width)
    return out


def _groups(rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    # Files list the world in any case, and several times where programs make groups like it.
    rows = [row for row in rows if row["dimension"] != "world" or row["match_count"]]
    if not rows:
        return []
    labels = [printable(row["dimension"]) for row in rows]
    label_width = max(map(cell_width, labels))
    figures = aligned(
        [
            [f"{row['group_count']:,} × {row['group_size']:,} ranks" for row in rows],
            [_stride(row) for row in rows],
            [_nodes(row) for row in rows],
            [_waits(row["wait_ns"]) for row in rows],
            [_rate(row["median_bus_bytes_per_s"]) for row in rows],
        ]
    )
    out = [heading("Parallel groups", "ranks, stride, nodes, waits of all ranks, bus", width)]
    for row, label, text in zip(rows, labels, figures, strict=True):
        line = Text(f"  {fit(label, label_width)}  {text}")
        room = width - line.cell_len - 2
        if room > 0:
            line.append("  " + shorten(f"by {row['known_by']}", room), style="dim")
        out.append(Text(shorten(line.plain, width)) if line.cell_len > width else line)
    return out


def _stride(row: Mapping[str, Any]) -> str:
    return "" if row["stride"] in (None, 1) else f"every {row['stride']:,}."


def _nodes(row: Mapping[str, Any]) -> str:
    count = row["node_count"]
    return "" if count is None else f"{count:,} node{'' if count == 1 else 's'}"


def _waits(wait_ns: int | None) -> str:
    return "none matched" if wait_ns is None else f"{format_duration(wait_ns)} waits"


def _rate(bytes_per_s: float | None) -> str:
    return "–" if bytes_per_s is None else format_bytes_per_s(bytes_per_s)


def _pipeline(rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    first = rows[0]
    if first["schedule"] is None:
        note = f"schedule unknown: {first['reason']}"
    else:
        least = pct_text(first["schedule_bubble_pct"])
        count = first["microbatch_count"]
        note = f"{first['schedule']}, {count:,.0f} micro-batches: at least {least} bubble"
    shown = rows[:MAX_STAGES]
    figures = aligned(
        [
            [f"stage {row['stage']}" for row in shown],
            [f"{row['rank_count']:,} ranks" for row in shown],
            [pct_text(row["bubble_pct"]) for row in shown],
            [f"{format_duration(row['bubble_ns'])} bubble" for row in shown],
        ]
    )
    out = [heading("Pipeline", printable(note), width)]
    for row, text in zip(shown, figures, strict=True):
        bar = share_bar(row["bubble_pct"], min(_BAR, max(width - len(text) - 4, 0)), "bright_black")
        out.append(Text.assemble(f"  {text}  ", bar))
    return [*out, *more(len(rows) - len(shown), "stage", "stages")]


def _experts(rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    worst = rows[0]
    if not worst["is_most_loaded"]:
        return [heading("Experts", "all-to-alls give every rank of a group the same", width)]
    group = "" if worst["pg_name"] is None else f" of group {printable(worst['pg_name'])}"
    text = (
        f"rank {worst['rank']}{group} gets {pct_text(worst['load_pct'])} of the mean of its "
        f"{worst['group_size']:,} ranks in all-to-alls"
    )
    return [heading("Experts", text, width)]


def _clocks(rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    known = [row for row in rows if row["offset_ns"] is not None]
    if len(rows) <= MAX_DEVICES and not any(row["is_beyond_error"] for row in known):
        return []
    if not known:
        return [heading("Clocks", f"not compared: {printable(rows[0]['reason'])}", width)]
    apart = sorted(
        (row for row in known if row["is_beyond_error"]), key=lambda row: -abs(row["offset_ns"])
    )
    error = known[0]["error_ns"]
    of = "" if error is None else f" ± {format_duration(error)}"
    if not apart:
        return [heading("Clocks", f"one time on all ranks, as ends of collectives tell{of}", width)]
    told = [
        f"rank {row['rank']} {format_duration(abs(row['offset_ns']))} "
        f"{'ahead' if row['offset_ns'] > 0 else 'behind'}"
        for row in apart[:MAX_CLOCKS]
    ]
    rest = len(apart) - len(told)
    text = ", ".join(told) + (f" and {rest:,} more" if rest else "")
    return [heading("Clocks", f"{text}{of}, from the ends of collectives", width)]


_DRAWN = {
    "parallel_groups": _groups,
    "pipeline_bubbles": _pipeline,
    "expert_balance": _experts,
    "clock_offsets": _clocks,
}
