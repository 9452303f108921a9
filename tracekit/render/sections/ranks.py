"""Sections on many ranks: distribution of time, stragglers, and parallel groups."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tracekit.palette import PARTS
from tracekit.render._bars import marks, share_bar, strip
from tracekit.render._cells import TextColumn
from tracekit.render._text import printable
from tracekit.render.sections._layout import (
    Row,
    Screen,
    figures,
    fitted,
    more,
    pct_text,
    rank_text,
)
from tracekit.render.sections.device_time import MAX_DEVICES
from tracekit.units import format_bytes_per_s, format_short

MAX_NAMED = 5
MAX_WAITS = 3
MAX_STAGES = 16
MAX_CLOCKS = 4
_FEWEST = 4
_MAX_LISTED = 8

_STRIPS = (("at work", "own_ns"), ("waiting", "comm_wait_ns"))
_PARTS = {
    **{part.name: part.short_label for part in PARTS},
    "own": "at work",
    "comm_wait": "waiting",
}


def ranks(screen: Screen) -> list[Text]:
    """Return the distribution of each part, with a strip if there are too many ranks to list."""
    if len(screen.data.get("rank_summary") or ()) <= MAX_DEVICES:
        return []
    if screen.full:
        tables = screen.table("rank_distribution"), screen.table("rank_summary")
        return [screen.heading("Ranks"), *tables[0], Text(), *tables[1]]
    rows = screen.rows("rank_summary")
    nodes = {row["node"] for row in rows if row["node"] is not None}
    where = f" on {len(nodes):,} nodes" if len(nodes) > 1 else ""
    count, size = rows[0]["rank_count"], rows[0]["world_size"]
    of = "" if size in (None, count) else f" of {size:,}"
    note = f"{count:,}{of}{where}; each figure with the rank that has it"
    return [screen.heading("Ranks", note), *_distribution(screen), *_strips(rows, screen)]


def _distribution(screen: Screen) -> list[Text]:
    rows = screen.rows("rank_distribution")
    names = [_PARTS.get(row["part"], row["part"].removeprefix("phase/")) for row in rows]
    columns = []
    for figure in ("min", "median", "p95", "max"):
        columns += figures(rows, {f"{figure}_ns": figure})
        ranks = [_number(row[f"{figure}_rank"]) for row in rows]
        columns.append(TextColumn("", "", ranks, False))
    return screen.block("", [printable(name) for name in names], columns)


def _number(rank: int | None) -> str:
    return "#?" if rank is None else f"#{rank}"


def _strips(rows: Sequence[Row], screen: Screen) -> list[Text]:
    """Return a strip per figure, with marks below outliers."""
    shown = [(name, column) for name, column in _STRIPS if any(row[column] for row in rows)]
    if not shown:
        return []
    labels = fitted([name for name, _ in shown])
    margin = " " * (len(labels[0]) + 4)
    room = max(screen.width - len(margin), 1)
    marked = [row["is_outlier"] is True for row in rows]
    out = []
    for label, (_, column) in zip(labels, shown, strict=True):
        cells = strip([row[column] for row in rows], marked, room)
        out.append(Text.assemble("  ", label, "  ", cells))
    if any(marked):
        out.append(Text.assemble(margin, marks(marked, room)))
    ends = f"ranks {_number(rows[0]['rank'])} to {_number(rows[-1]['rank'])}"
    each = "" if len(rows) <= room else ", the highest of each cell's ranks"
    return [*out, screen.line(f"{margin}{ends}{each}; a full block is the longest time", "dim")]


def stragglers(screen: Screen) -> list[Text]:
    """Return a line per outlier, and a line on the rank for which others wait most, if any."""
    data = screen.data
    if not {"stragglers", "waits", "rank_summary"} <= data.keys():
        return []
    if not (data["stragglers"].rows or data["waits"].rows):
        return _no_stragglers(screen)
    if screen.full:
        results = [name for name in ("stragglers", "waits") if data[name].rows]
        return [
            screen.heading("Stragglers"),
            *(line for name in results for line in screen.table(name)),
        ]
    rows = screen.rows("stragglers")
    # Outliers cannot be determined with few ranks.
    can_tell = any(known is not None for known in data["rank_summary"].column("is_outlier"))
    title, note = "Waits", "who waits for whom; outlier detection needs at least 4 ranks"
    if rows:
        title, note = "Stragglers", "slower than comparable ranks by more than a robust limit"
    elif can_tell:
        note = "who waits for whom; no rank, node, or link is an outlier"
    out = [screen.heading(title, note)]
    out += [_outlier(row, screen) for row in rows[:MAX_NAMED]]
    out += more(len(rows) - MAX_NAMED, "outlier")
    waits = [row for row in screen.rows("waits") if not row["is_passed_on"]]
    return [*out, *(_wait(row, screen) for row in waits[:MAX_WAITS])]


def _no_stragglers(screen: Screen) -> list[Text]:
    summary = screen.data["rank_summary"]
    if len(summary.rows) < _FEWEST:
        return []
    matched = any(summary.column("matched_count"))
    text = "none" if matched else "unknown: no collective is matched between ranks"
    return [screen.heading("Stragglers", text)]


def _outlier(row: Row, screen: Screen) -> Text:
    line = Text("  ")
    line.append(printable(row["name"]), style="bold red")
    if row["node"] is not None and row["kind"] != "node":
        line.append(f" on {printable(row['node'])}")
    parts = [f"+{format_short(row['delay_ns'])} (+{pct_text(row['delay_pct'])})"]
    if row["kind"] == "link":
        if row["bus_bytes_per_s"] is not None and row["like_bus_bytes_per_s"] is not None:
            usual = format_bytes_per_s(row["like_bus_bytes_per_s"])
            parts.append(f"{format_bytes_per_s(row['bus_bytes_per_s'])} where others have {usual}")
        parts.append(f"of {row['like_count']:,} such groups")
    else:
        parts[0] += " at work"
        if row["kind"] == "node":
            parts.append(f"{len(row['ranks']):,} ranks")
        if row["kind"] == "ranks":
            listed = ", ".join(map(str, row["ranks"][:_MAX_LISTED]))
            parts.append(listed + (" …" if len(row["ranks"]) > _MAX_LISTED else ""))
        if row["is_once"]:
            where = printable(f"{row['collective']} {row['number']}".removeprefix("comm_"))
            group = "" if row["pg_name"] is None else f" of group {printable(row['pg_name'])}"
            parts.append(f"before {where}{group}")
        if row["longest_waiting_rank"] is not None:
            longest = format_short(row["max_caused_wait_ns"])
            parts.append(f"rank {row['longest_waiting_rank']} waits longest for it: {longest}")
    return screen.ended(line, " · ".join(parts))


def _wait(row: Row, screen: Screen) -> Text:
    group = "" if row["pg_name"] is None else f" group {row['pg_name']}"
    kind = row["dimension"] or row["class"].removeprefix("comm_")
    count = row["waiting_rank_count"]
    waiting = rank_text(row["longest_waiting_rank"])
    who = f"{waiting} waits" if count == 1 else f"{count:,} ranks wait"
    longest = "" if count == 1 else f" · {waiting} longest"
    text = (
        f"  {who} for {rank_text(row['straggler_rank'])} in {kind}{group}: "
        f"{format_short(row['wait_ns'])} in all, "
        f"{pct_text(row['wait_pct'])} of all waits{longest}, "
        f"{format_short(row['max_wait_ns'])} at once"
    )
    return screen.line(printable(text))


def parallel_groups(screen: Screen) -> list[Text]:
    """Return a line per kind of group and per pipeline stage, and lines on experts and clocks."""
    out: list[Text] = []
    for name, (title, draw) in _PARALLEL.items():
        if screen.data.get(name):
            out += screen.tables({title: name}) if screen.full else draw(screen.rows(name), screen)
    return out


def _groups(rows: Sequence[Row], screen: Screen) -> list[Text]:
    # Files list the world group, several times if the program creates equal groups.
    rows = [row for row in rows if row["dimension"] != "world" or row["match_count"]]
    if not rows:
        return []
    group_rows = [
        {**row}
        | {
            "ranks": f"{row['group_count']:,} × {row['group_size']:,}",
            "stride": "" if row["stride"] in (None, 1) else f"{row['stride']:,}",
        }
        for row in rows
    ]
    titles = {"ranks": "groups × ranks", "stride": "stride", "node_count": "nodes"}
    titles |= {"wait_ns": "waits", "median_bus_bytes_per_s": "bus bandwidth"}
    return screen.block(
        "Parallel groups",
        [row["dimension"] for row in rows],
        figures(group_rows, titles),
        after=[printable(row["reason"] or f"by {row['known_by']}") for row in rows],
    )


def _pipeline(rows: Sequence[Row], screen: Screen) -> list[Text]:
    first = rows[0]
    if first["schedule"] is None:
        note = f"schedule unknown: {first['reason']}"
    else:
        ideal = pct_text(first["schedule_bubble_pct"])
        count = first["microbatch_count"]
        note = f"{first['schedule']}, {count:,.0f} micro-batches: {ideal} bubble with equal stages"
    shown = rows[:MAX_STAGES]
    heading = Text.assemble(("Pipeline", "bold"), (f"  {printable(note)}", "dim"))
    titles = {"rank_count": "ranks", "bubble_pct": "bubble", "bubble_ns": "bubble"}

    def bars(width: int) -> list[Text]:
        return [share_bar(row["bubble_pct"], width, "bright_black") for row in shown]

    labels = [f"stage {row['stage']}" for row in shown]
    return screen.block(heading, labels, figures(shown, titles), bars=bars, of=len(rows))


def _experts(rows: Sequence[Row], screen: Screen) -> list[Text]:
    worst = rows[0]
    text = "all-to-alls give every rank of a group the same"
    if worst["is_most_loaded"]:
        group = "" if worst["pg_name"] is None else f" of group {printable(worst['pg_name'])}"
        text = (
            f"rank {worst['rank']}{group} gets {pct_text(worst['load_pct'])} of the mean of its "
            f"{worst['group_size']:,} ranks in all-to-alls"
        )
    return [screen.heading("Experts", text)]


def _clocks(rows: Sequence[Row], screen: Screen) -> list[Text]:
    compared = [row for row in rows if row["offset_ns"] is not None]
    apart = [row for row in compared if row["is_beyond_error"]]
    if len(rows) <= MAX_DEVICES and not apart:
        return []
    if not compared:
        return [screen.heading("Clocks", f"not compared: {printable(rows[0]['reason'])}")]
    error = compared[0]["error_ns"]
    of = "" if error is None else f" ± {format_short(error)}"
    if not apart:
        return [screen.heading("Clocks", f"equal on all ranks{of}, by the ends of collectives")]
    apart.sort(key=lambda row: -abs(row["offset_ns"]))
    offsets = [
        f"rank {row['rank']} {format_short(abs(row['offset_ns']))} "
        f"{'ahead' if row['offset_ns'] > 0 else 'behind'}"
        for row in apart[:MAX_CLOCKS]
    ]
    rest = len(apart) - len(offsets)
    text = ", ".join(offsets) + (f" and {rest:,} more" if rest else "")
    return [screen.heading("Clocks", f"{text}{of}, from the ends of collectives")]


_PARALLEL = {
    "parallel_groups": ("Parallel groups", _groups),
    "pipeline_bubbles": ("Pipeline", _pipeline),
    "expert_balance": ("Experts", _experts),
    "clock_offsets": ("Clocks", _clocks),
}
