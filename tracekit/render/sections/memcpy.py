"""Copies by direction: how much, how long, how fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass
class _Copies:
    """The copies of one direction, over all devices."""

    count: int = 0
    sized_count: int = 0
    kernel_ns: int = 0
    bytes: int = 0
    sized_s: float = 0.0


def lines(data: Mapping[str, Result], width: int, *, full: bool) -> list[Text]:
    """Return one line per direction; bytes and bandwidth are of copies whose bytes are known."""
    if not data.get("memcpy"):
        return []
    if full:
        return [heading("Copies"), *grid_lines(data["memcpy"], width, units=True)]
    directions = _by_direction(data["memcpy"])
    names = sorted(directions, key=lambda name: (-directions[name].kernel_ns, name))
    copies = [directions[name] for name in names]
    figures = aligned(
        [
            [format_duration(each.kernel_ns) for each in copies],
            [f"{each.count:,} ×" for each in copies],
            [format_bytes(each.bytes) if each.sized_count else "–" for each in copies],
            [
                format_bytes_per_s(each.bytes / each.sized_s) if each.sized_s else "–"
                for each in copies
            ],
        ]
    )
    labels = [printable(name.removeprefix("memcpy_")) for name in names]
    label_width = min(max(map(cell_width, labels)), _MAX_LABEL)
    out = [heading("Copies", "sum of durations, count, bytes, bandwidth (GB = 1e9 bytes)", width)]
    for label, text, each in zip(labels, figures, copies, strict=True):
        line = Text(f"  {fit(label, label_width)}  {text}")
        if 0 < each.sized_count < each.count:
            note = f"  (bytes known of {each.sized_count:,})"
            line.append(shorten(note, width - cell_width(line.plain)), style="dim")
        out.append(line)
    return out


def _by_direction(result: Result) -> dict[str, _Copies]:
    directions: dict[str, _Copies] = {}
    for row in result.to_dicts():
        copies = directions.setdefault(row["direction"], _Copies())
        copies.count += row["copy_count"]
        copies.kernel_ns += row["kernel_ns"]
        copies.sized_count += row["sized_count"]
        copies.bytes += row["bytes"] or 0
        if row["bandwidth_bytes_per_s"]:
            # The time of the copies whose bytes are known, from the two figures that the row has.
            copies.sized_s += (row["bytes"] or 0) / row["bandwidth_bytes_per_s"]
    return directions
