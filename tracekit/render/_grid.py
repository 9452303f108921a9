"""Lays out a result as aligned columns within a width.

Numbers are never truncated, and sentences are wrapped. If the columns are too wide, headers take
several lines, and text is truncated at the right. If they are still too wide, a single row is shown
as lines of `name  value`. If there are several rows, columns with one value move below the table.
Further columns are omitted from the right, or in the order that an analysis defines with ``Keep``;
a note names them.

Columns `measured_peak_…` without values are omitted. The source of a measured peak, or the reason
for a missing one, is one line below the table instead of a column. Exact formats have all columns.
"""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.text import Text

from tracekit.analysis.result import Result, picked
from tracekit.render._cells import NOTHING, TextColumn, text_columns
from tracekit.render._text import cell_width, fit, printable, truncate_middle, truncate_names

_GAPS = (2, 1)
_MIN_TEXT = 24
# Columns with sentences, which are wrapped instead of truncated.
_SENTENCES = frozenset({"as_printed", "description", "meaning", "note", "question", "reason"})
_MEASURED_PEAK = "measured_peak_"
_PEAK_TEXTS = {"measured_peak_source": "measured", "measured_peak_reason": "no measured peak"}
_MAX_TEXTS = 5
_MAX_LENGTH = 200
_OTHER_THREADS = re.compile(r"it was measured with \d+ threads?, the rank had (\d+) threads?")
_HEADER_BREAK = re.compile(r"(?<=[_ ])")

Lines = list[str]


def grid_lines(result: Result, width: int | None, *, units: bool) -> Iterator[Text]:
    """Yield the lines of a table, or of records if a table does not fit into the width.

    Without a width, all columns are shown completely.
    """
    # Ad-hoc SQL keeps all columns that the statement selects.
    shown = _without_peak_texts(result) if units and width is not None else result
    columns = text_columns(shown, units=units)
    if not columns:
        return
    if width is None:
        headers, widths, gap = [[c.header] for c in columns], [], _GAPS[0]
        widths = _natural_widths(columns, headers)
        below: list[str] = []
    else:
        headers, widths, gap = _layout(columns, width)
        below = []
        if not widths and len(result.rows) > 1:
            columns, below = _folded(columns, _priority(result), width)
            headers, widths, gap = _layout(columns, width)
    if widths:
        yield from _table(columns, headers, widths, " " * gap)
    else:
        yield from _records(columns, len(result.rows), width or _MIN_TEXT)
    for text in below:
        for line in textwrap.wrap(text, width or len(text), subsequent_indent="  "):
            yield Text(line, style="dim")
    if not result.rows:
        yield Text("no rows", style="dim")
    elif shown is not result and width is not None:
        yield from _peak_lines(result, width)


def _priority(result: Result) -> tuple[str, ...]:
    """Return the columns that are omitted last, as the analysis defines; none for ad-hoc SQL."""
    from tracekit.analysis.catalog import load_catalog

    if result.keep:
        return result.keep
    spec = load_catalog().analyses.get(result.name)
    return spec.keep if spec else ()


def _folded(
    columns: Sequence[TextColumn], priority: Sequence[str], width: int
) -> tuple[list[TextColumn], list[str]]:
    """Return the columns that fit, and notes about the other columns."""
    order = sorted(range(len(columns)), key=lambda place: _rank(columns[place], priority, place))

    def is_too_wide(count: int) -> bool:
        return not _layout([columns[place] for place in sorted(order[:count])], width)[1]

    # Fewer columns always fit better, so bisection finds the count.
    count = max(bisect_left(range(1, len(order) + 1), True, key=is_too_wide), 1)
    hidden = [columns[place] for place in sorted(order[count:])]
    same = [column for column in hidden if _is_same(column)]
    labeled = [column.labeled(column.cells[0]) for column in same if column.cells[0] != NOTHING]
    empty = [column.source for column in same if column.cells[0] == NOTHING]
    others = [
        column.source for column in hidden if not _is_same(column) and column.source != "reason"
    ]
    reasons = next((column.cells for column in hidden if column.source == "reason"), [])
    below = []
    if labeled:
        below.append(f"in every row: {' · '.join(labeled)}")
    if empty:
        below.append(f"without a value: {', '.join(empty)}")
    if len(set(reasons)) > 1:
        below.append(f"reason: {_each_once(text for text in reasons if text != NOTHING)}")
    if others:
        below.append(f"left out: {', '.join(others)} (--wide shows them, --format json has all)")
    return [columns[place] for place in sorted(order[:count])], below


def _is_same(column: TextColumn) -> bool:
    return len(set(column.cells)) == 1


def _rank(column: TextColumn, priority: Sequence[str], place: int) -> tuple[bool, int, int]:
    """Return the sort key of a column: columns to keep come first, constant columns last."""
    rank = priority.index(column.source) if column.source in priority else len(priority)
    return _is_same(column), rank, place


def fits(result: Result, width: int, *, units: bool) -> bool:
    """Return whether a result fits as a table instead of as records."""
    shown = _without_peak_texts(result) if units else result
    _, widths, _ = _layout(text_columns(shown, units=units), width)
    return bool(widths)


def _layout(columns: Sequence[TextColumn], width: int) -> tuple[list[Lines], list[int], int]:
    """Return the header lines, the column widths ([] if they do not fit), and the gap."""
    headers = [[column.header] for column in columns]
    widths = _natural_widths(columns, headers)
    gap = _GAPS[0]
    if _total(widths, gap) > width:
        headers = [broken_header(column) for column in columns]
        for gap in _GAPS:
            widths = _shrunk(columns, headers, width, gap)
            if widths:
                break
    return headers, widths, gap


def broken_header(column: TextColumn) -> Lines:
    """Split a header that is wider than its data into lines, after `_` and spaces."""
    pieces = _HEADER_BREAK.split(column.header)
    room = max(column.width, *(cell_width(piece.rstrip()) for piece in pieces))
    lines = [""]
    for piece in pieces:
        if lines[-1] and cell_width((lines[-1] + piece).rstrip()) > room:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _natural_widths(columns: Sequence[TextColumn], headers: Sequence[Lines]) -> list[int]:
    return [
        max(column.width, *map(cell_width, lines))
        for column, lines in zip(columns, headers, strict=True)
    ]


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _shrunk(
    columns: Sequence[TextColumn], headers: Sequence[Lines], width: int, gap: int
) -> list[int]:
    """Return widths that fit, reducing the widest text columns first; [] if none fit."""
    widths = _natural_widths(columns, headers)
    floors = [
        natural if column.is_number else min(natural, max(_MIN_TEXT, *map(cell_width, lines)))
        for column, natural, lines in zip(columns, widths, headers, strict=True)
    ]
    if _total(floors, gap) > width:
        return []
    while (excess := _total(widths, gap) - width) > 0:
        shrinkable = [index for index, floor in enumerate(floors) if widths[index] > floor]
        widest = max(shrinkable, key=lambda index: widths[index])
        others = [widths[index] for index in shrinkable if widths[index] < widths[widest]]
        # Shrink to the next widest column in one step, because names may have a million characters.
        step = widths[widest] - max([floors[widest], *others])
        widths[widest] -= min(excess, step)
    return widths


def _table(
    columns: Sequence[TextColumn], headers: Sequence[Lines], widths: Sequence[int], gap: str
) -> Iterator[Text]:
    height = max(map(len, headers))
    padded = [[""] * (height - len(lines)) + lines for lines in headers]
    for level in zip(*padded, strict=True):
        yield Text(_line(level, columns, widths, gap), style="bold")
    yield Text(gap.join("─" * width for width in widths), style="dim")
    every = [
        column.cells
        if column.is_number or column.header in _SENTENCES
        else truncate_names(column.cells, width)
        for column, width in zip(columns, widths, strict=True)
    ]
    for row in zip(*every, strict=True):
        cells = [
            textwrap.wrap(cell, width) if column.header in _SENTENCES else [cell]
            for cell, column, width in zip(row, columns, widths, strict=True)
        ]
        for level in zip_longest(*cells, fillvalue=""):
            yield Text(_line(level, columns, widths, gap))


def _line(
    cells: Sequence[str], columns: Sequence[TextColumn], widths: Sequence[int], gap: str
) -> str:
    return gap.join(
        fit(cell, width, right=column.is_number)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )


def _records(columns: Sequence[TextColumn], row_count: int, width: int) -> Iterator[Text]:
    label_width = max(cell_width(column.header) for column in columns)
    room = max(width - label_width - 2, _MIN_TEXT)
    for index in range(row_count):
        yield Text(f"─ row {index + 1} ".ljust(min(width, label_width + 20), "─"), style="dim")
        for column in columns:
            cell = column.cells[index]
            shown = cell if column.is_number else truncate_middle(cell, room)
            yield Text.assemble((fit(column.header, label_width), "bold"), "  ", shown)


def _without_peak_texts(result: Result) -> Result:
    """Return a result without descriptions of peak rates and without empty peak rates."""
    if not _PEAK_TEXTS.keys() & set(result.column_names) or not result.rows:
        return result
    return picked(
        result,
        [
            name
            for index, name in enumerate(result.column_names)
            if not name.startswith(_MEASURED_PEAK)
            or (name not in _PEAK_TEXTS and any(row[index] is not None for row in result.rows))
        ],
    )


def _each_once(texts: Iterable[str]) -> str:
    """Return the first few distinct strings, truncated to a readable length."""
    every = list(dict.fromkeys(texts))
    shown = [printable(text[:_MAX_LENGTH]) for text in every[:_MAX_TEXTS]]
    more = [f"and {len(every) - _MAX_TEXTS:,} more"] if len(every) > _MAX_TEXTS else []
    return "; ".join(shown + more)


def _peak_lines(result: Result, width: int) -> Iterator[Text]:
    """Yield lines with the measured peak rates and the reasons for missing ones."""
    for name, label in _PEAK_TEXTS.items():
        if name not in result.column_names:
            continue
        texts = list(dict.fromkeys(text for text in result.column(name) if text))
        if not texts:
            continue
        sentence = f"{label}: {_each_once(texts)}"
        if threads := next(filter(None, map(_OTHER_THREADS.fullmatch, texts)), None):
            family = "memcpy" if result.name == "memcpy" else "gemm"
            sentence += f" (measure it: OMP_NUM_THREADS={threads[1]} tracekit bench {family})"
        for line in textwrap.wrap(sentence, width, subsequent_indent="  "):
            yield Text(line, style="dim")
