"""How much of a result a page has room for: so a report is bounded for any trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracekit.analysis.result import Result
from tracekit.render._json_text import json_text

MAX_ROWS = 1_000
"""How many rows of a result a page has."""

MAX_BYTES = 250_000
"""And how much text, in characters: names may be as long as they like."""

_ROWS_OF = {"latency_cdf": 5_000}
"""Results that have room for more: of eight runs, the curves of all metrics."""

_LARGEST_FIRST = {"module_icicle": "total_wall_ns", "class_icicle": "total_wall_ns"}
"""Results whose rows are in the order of a picture; of these the largest stay."""


_SERIES = {
    "memory_over_time": ("rank", "device"),
    "queue_over_time": ("rank", "device", "stream"),
    "steps": ("rank", "device"),
    "throughput_over_time": ("run",),
    "latency_cdf": ("run",),
    "queue_cdf": ("run",),
}
"""Results that are lines over time: of these, whole lines stay, as many as there is room for."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A result as far as a page has room for it."""

    shown: Result
    total: int

    def note(self, command: str) -> str:
        """Return what is to be said of the rows that are left out; nothing where none is."""
        left = self.total - len(self.shown)
        if not left:
            return ""
        return f"{left:,} of {self.total:,} rows are left out here; all of them: {command}"


def cut(result: Result) -> Cut:
    """Return the rows of a result that a page has room for: the first, or the largest."""
    rows = result.rows
    most = _ROWS_OF.get(result.name, MAX_ROWS)
    if len(rows) > most and result.name in _LARGEST_FIRST:
        place = result.column_names.index(_LARGEST_FIRST[result.name])
        least = sorted((row[place] for row in rows), reverse=True)[most]
        rows = [row for row in rows if row[place] > least]
    if len(rows) > most and result.name in _SERIES:
        rows = _whole_lines(result, most)
    kept = []
    room = MAX_BYTES
    for row in rows[:most]:
        room -= sum(len(json_text(value)) + 1 for value in row)
        if room < 0:
            break
        kept.append(row)
    return Cut(Result(result.name, result.columns, kept), len(result.rows))


def _whole_lines(result: Result, most: int) -> list[tuple[Any, ...]]:
    """Return the rows of the first lines that fit whole; of one that does not, its first rows."""
    places = [result.column_names.index(name) for name in _SERIES[result.name]]
    lines: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in result.rows:
        lines.setdefault(tuple(row[place] for place in places), []).append(row)
    kept: list[tuple[Any, ...]] = []
    for line in lines.values():
        if kept and len(kept) + len(line) > most:
            break
        kept += line
    return kept
