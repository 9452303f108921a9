"""How much of a result a page has room for: so a report is bounded for any trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result
from tracekit.render._json_text import json_text

MAX_ROWS = 1_000
"""How many rows of a result a page has."""

MAX_BYTES = 250_000
"""And how much text, in characters: names may be as long as they like."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A result, cut to the room of a page."""

    shown: Result
    total: int

    def note(self, command: str) -> str:
        """Return what is to be said of the rows that are left out; nothing where none is."""
        left = self.total - len(self.shown)
        if not left:
            return ""
        return f"{left:,} of {self.total:,} rows are left out here; all of them: {command}"


def cut(result: Result) -> Cut:
    """Return the rows of a result that a page has room for: the first, or as its header says."""
    rows = result.rows
    view = load_catalog().analyses.views("page").get(result.name, {})
    most = int(view.get("rows", MAX_ROWS))
    if len(rows) > most and "largest" in view:
        place = result.column_names.index(view["largest"])
        least = sorted((row[place] for row in rows), reverse=True)[most]
        rows = [row for row in rows if row[place] > least]
    if len(rows) > most and "lines" in view:
        rows = _whole_lines(result, view["lines"].split(","), most)
    kept = []
    room = MAX_BYTES
    for row in rows[:most]:
        room -= sum(len(json_text(value)) + 1 for value in row)
        if room < 0:
            break
        kept.append(row)
    return Cut(Result(result.name, result.columns, kept), len(result.rows))


def _whole_lines(result: Result, of: Sequence[str], most: int) -> list[tuple[Any, ...]]:
    """Return the rows of the first lines that fit whole; of one that does not, its first rows."""
    places = [result.column_names.index(name) for name in of]
    lines: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in result.rows:
        lines.setdefault(tuple(row[place] for place in places), []).append(row)
    kept: list[tuple[Any, ...]] = []
    for line in lines.values():
        if kept and len(kept) + len(line) > most:
            break
        kept += line
    return kept
