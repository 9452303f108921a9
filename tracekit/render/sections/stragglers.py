"""Who holds the run up: outliers by name, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import printable, shorten
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._share import pct_text
from tracekit.units import format_bytes_per_s, format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 22

MAX_NAMED = 5
MAX_WAITS = 3
_FEWEST = 4


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return a line for each outlier and for whom ranks wait most; nothing where neither is."""
    named, waits = data.get("stragglers"), data.get("waits")
    if named is None or waits is None or "rank_summary" not in data:
        return []
    if not (named.rows or waits.rows):
        return _none(data, width)
    if full:
        out = [heading("Stragglers")]
        for result in (named, waits):
            if result.rows:
                out += grid_lines(result, None if wide else width, units=True)
        return out
    rows = named.to_dicts()
    if rows:
        out = [heading("Stragglers", "slower than their like by more than a robust limit", width)]
    elif _can_tell(data):
        out = [heading("Stragglers", "none; no rank, node or link is an outlier", width)]
    else:
        out = [heading("Waits", "who waits for whom; it takes four ranks to tell outliers", width)]
    out += [_outlier(row, width) for row in rows[:MAX_NAMED]]
    out += more(len(rows) - MAX_NAMED, "outlier", "outliers")
    waited = [row for row in waits.to_dicts() if not row["is_passed_on"]]
    return [*out, *(_wait(row, width) for row in waited[:MAX_WAITS])]


def _can_tell(data: Mapping[str, Result]) -> bool:
    """Whether there are enough ranks for one to be an outlier among them."""
    return any(known is not None for known in data["rank_summary"].column("is_outlier"))


def _none(data: Mapping[str, Result], width: int) -> list[Text]:
    if not data.get("rank_summary") or len(data["rank_summary"].rows) < _FEWEST:
        return []
    matched = any(data["rank_summary"].column("matched_count"))
    text = "none" if matched else "unknown: no collective is matched between ranks"
    return [heading("Stragglers", text, width)]


def _outlier(row: Mapping[str, Any], width: int) -> Text:
    line = Text("  ")
    line.append(printable(row["name"]), style="bold red")
    if row["node"] is not None and row["kind"] != "node":
        line.append(f" on {printable(row['node'])}")
    parts = [f"+{format_duration(row['delay_ns'])} (+{pct_text(row['delay_pct'])})"]
    if row["kind"] == "link":
        if row["bus_bytes_per_s"] is not None and row["like_bus_bytes_per_s"] is not None:
            usual = format_bytes_per_s(row["like_bus_bytes_per_s"])
            parts.append(f"{format_bytes_per_s(row['bus_bytes_per_s'])} where others have {usual}")
        parts.append(f"of {row['like_count']:,} such groups")
    else:
        parts[0] += " at work"
        if row["kind"] == "node":
            parts.append(f"{len(row['ranks']):,} ranks")
        if row["is_once"]:
            where = printable(f"{row['collective']} {row['number']}".removeprefix("comm_"))
            group = "" if row["pg_name"] is None else f" of group {printable(row['pg_name'])}"
            parts.append(f"before {where}{group}")
        if row["longest_waiting_rank"] is not None:
            longest = format_duration(row["max_caused_wait_ns"])
            parts.append(f"rank {row['longest_waiting_rank']} waits longest for it: {longest}")
    line.append("  " + shorten(" · ".join(parts), width - line.cell_len - 2))
    return line


def _wait(row: Mapping[str, Any], width: int) -> Text:
    rank = "rank ?" if row["straggler_rank"] is None else f"rank {row['straggler_rank']}"
    group = "" if row["pg_name"] is None else f" group {row['pg_name']}"
    kind = row["dimension"] or row["class"].removeprefix("comm_")
    count = row["waiting_rank_count"]
    who = f"rank {row['longest_waiting_rank']} waits" if count == 1 else f"{count:,} ranks wait"
    longest = "" if count == 1 else f" · rank {row['longest_waiting_rank']} longest"
    text = (
        f"  {who} for {rank} in {kind}{group}: {format_duration(row['wait_ns'])} in all, "
        f"{pct_text(row['wait_pct'])} of all waits{longest}, "
        f"{format_duration(row['max_wait_ns'])} at once"
    )
    return Text(shorten(printable(text), width))
