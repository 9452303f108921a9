"""What was read: files, ranks, devices, events, and whether anything is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._text import printable, shorten
from tracekit.units import format_bytes, format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 10


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return two lines: what the traces are, and how much is in them."""
    del full, wide
    if not data.get("trace_totals"):
        return []
    rows = data["trace"].to_dicts()
    first = Text(shorten(_files(rows), width // 2), style="bold")
    (totals,) = data["trace_totals"].to_dicts()
    about = "  ·  ".join([_ranks(rows, totals["unranked_count"]), _devices(rows)])
    first.append("  " + shorten(about, width - first.cell_len - 2), style="not bold")
    return [first, Text(shorten(_counts(totals), width))]


def _files(rows: Sequence[Mapping[str, Any]]) -> str:
    if len(rows) == 1:
        return printable(PurePath(rows[0]["file"]).name)
    folders = {str(PurePath(row["file"]).parent) for row in rows}
    place = f" in {printable(PurePath(folders.pop()).name)}/" if len(folders) == 1 else ""
    return f"{len(rows):,} traces{place}"


def _ranks(rows: Sequence[Mapping[str, Any]], unknown: int) -> str:
    known = sorted({row["rank"] for row in rows if row["rank"] is not None})
    parts = []
    if known:
        parts.append(f"rank{'' if len(known) == 1 else 's'} {_spans(known)}")
    if unknown:
        parts.append("rank unknown" if len(rows) == 1 else f"{unknown:,} of unknown rank")
    sizes = {row["world_size"] for row in rows if row["world_size"] is not None}
    of = f" of {sizes.pop():,}" if len(sizes) == 1 else ""
    return ", ".join(parts) + of


def _spans(numbers: Sequence[int]) -> str:
    """Return sorted numbers as text, neighbours joined: `0–3, 6`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in spans)


def _devices(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the devices by product name; where the file names none, the kind of accelerator."""
    names: Counter[str] = Counter()
    for row in rows:
        for device in row["devices"] or ():
            _, _, product = device.partition(" ")
            names[printable(product or row["accelerator"] or device)] += 1
    # Stores of an older make, and results made by hand, do not say.
    unrecorded = {
        printable(row["accelerator"]) for row in rows if row.get("is_recorded", True) is False
    }
    if unrecorded:
        known = ", ".join(sorted(unrecorded))
        said = f"{known}: kernels not recorded"
        names["device work not known" if unrecorded == {"unknown"} else said] = 1
    if not names:
        return "no device work"
    return ", ".join(name if count == 1 else f"{count:,} × {name}" for name, count in names.items())


def _counts(totals: Mapping[str, Any]) -> str:
    parts = [f"{totals['event_count']:,} events"]
    # What is wrong comes early: the end of the line is what a narrow screen loses.
    if totals["repaired_count"]:
        parts.append(f"{totals['repaired_count']:,} repaired")
    if totals["rejected_count"]:
        parts.append(f"{totals['rejected_count']:,} rejected")
    truncated = totals["truncated_count"]
    if truncated:
        parts.append("cut off" if totals["trace_count"] == 1 else f"{truncated:,} cut off")
    if totals["device_event_count"] is not None:
        parts.append(f"{totals['device_event_count']:,} device events")
    parts.append(f"{format_duration(totals['max_window_ns'])} recorded")
    parts.append(format_bytes(totals["file_bytes"]))
    return "  ·  ".join(parts)
