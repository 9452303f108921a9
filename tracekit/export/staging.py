"""What an export asks for more than once, worked out once and laid in temporary tables.

DuckDB keeps to its limit of memory with them, and spills: a statement that would work out all of
this by itself while it sorts the events holds everything at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.export.reach import ALWAYS, REACH
from tracekit.export.staged_tables import OF_ALL, OF_PIECE

if TYPE_CHECKING:
    from tracekit.export.selection import Part, Scope
    from tracekit.trace import Trace

BLOCK_BYTES = 16 << 20
"""So much text of events is asked for at a time, bytes."""

_EVENT_BYTES = 200
"""What an event takes besides its name and its arguments, roughly."""

_BIN_COUNT = 4_096
"""Into so many bins of equal length the time of a trace is cut; blocks are made of whole bins."""

_BINS = f"""
    SELECT (ts_ns - FROM_NS) // WIDTH_NS AS bin, sum(
        {_EVENT_BYTES} + strlen(name) + coalesce(strlen(args), 0) + coalesce(strlen(extra), 0)
    )::BIGINT
    FROM event
    WHERE trace_id = TRACE_ID AND ts_ns >= FROM_NS AND ts_ns < TO_NS
        AND ts_ns + dur_ns >= ENDS_FROM_NS
    GROUP BY bin
    ORDER BY bin
"""


@dataclass(frozen=True, slots=True)
class Block:
    """Events of one trace that begin within a stretch of its time.

    Attributes:
        part: the trace.
        from_ns: the first start, ns of the trace.
        to_ns: starts are before, ns.
    """

    part: Part
    from_ns: int
    to_ns: int


@contextmanager
def staged(trace: Trace, scope: Scope) -> Iterator[None]:
    """Lay the temporary tables that the statements of scene_queries read, until the block ends."""
    from_ns, to_ns = scope.times
    values = {
        "CHOSEN": scope.relation(),
        "TRACE_IDS": scope.trace_ids,
        "FROM_NS": f"({from_ns})",
        "TO_NS": f"({to_ns})",
        "INSIDE": "SELECT (trace_id, event_id) FROM export_chosen",
    }
    made = OF_PIECE if scope.is_piece else OF_ALL
    kinds = {"export_reach": "TABLE"} if scope.is_piece else {}
    try:
        if scope.is_piece:
            trace.sql(f"CREATE OR REPLACE TEMP TABLE export_reach AS {_filled(REACH, values)}")
            values |= _bounds(trace)
        for name, statement in made.items():
            kind, text = statement.split(maxsplit=1)
            kinds[name] = kind
            trace.sql(f"CREATE OR REPLACE TEMP {kind} {name} AS {_filled(text, values)}")
        yield
    finally:
        for name in reversed(kinds):
            trace.sql(f"DROP {kinds[name]} IF EXISTS temp.{name}")


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\b[A-Z_]+\b", lambda match: values.get(match[0], match[0]), text)


def _bounds(trace: Trace) -> dict[str, str]:
    """Return the widest reach of all devices: DuckDB skips what lies beyond constants."""
    names = [f"{which}_{end}" for which in ("near", "module", "phase") for end in ("from", "to")]
    asked = ", ".join(f"{'min' if n.endswith('from') else 'max'}({n})" for n in names)
    (found,) = trace.sql(f"SELECT {asked} FROM export_reach").rows
    return {n.upper(): f"({value or 0})" for n, value in zip(names, found, strict=True)}


def arrows_left_out(trace: Trace) -> int:
    """Return how many arrows lead from what is written to what is not, while staged() lasts."""
    ((count,),) = trace.sql("SELECT count(*) FROM export_arrow WHERE NOT is_inside").rows
    return int(count)


def blocks_of(trace: Trace, scope: Scope) -> Iterator[Block]:
    """Cut the events of an export into blocks that are asked for one by one.

    A block holds BLOCK_BYTES of text at most, unless more begins at one moment. The blocks of a
    trace come in the order of time: so what has begun is known when the next event comes.
    """
    spans = {
        row[0]: row[1:]
        for row in trace.sql(
            "SELECT trace_id, min(ts_ns), max(ts_ns) + 1 FROM event GROUP BY trace_id"
        ).rows
    }
    for part in scope.parts:
        if part.trace_id in spans:
            first_ns, end_ns = spans[part.trace_id]
            end_ns = min(end_ns, part.to_ns)
            for from_ns, to_ns in _stretches(trace, part, first_ns, end_ns):
                yield Block(part, from_ns, to_ns)


def with_ends(blocks: list[Block]) -> list[Block]:
    """Return blocks of which the first and the last of a trace reach as far as its part does.

    What is worked out of events may begin where none of them does.
    """
    found = []
    for place, block in enumerate(blocks):
        is_first = place == 0 or blocks[place - 1].part != block.part
        is_last = place + 1 == len(blocks) or blocks[place + 1].part != block.part
        from_ns = -ALWAYS if is_first else block.from_ns
        found.append(Block(block.part, from_ns, block.part.to_ns if is_last else block.to_ns))
    return found


def _stretches(trace: Trace, part: Part, from_ns: int, to_ns: int) -> Iterator[tuple[int, int]]:
    """Cut a stretch of time into some that hold a block each; a bin with more is cut itself."""
    if from_ns >= to_ns:
        return
    width_ns = -(-(to_ns - from_ns) // _BIN_COUNT)
    values = {
        "TRACE_ID": str(part.trace_id),
        "WIDTH_NS": str(width_ns),
        "FROM_NS": f"({from_ns})",
        "TO_NS": f"({to_ns})",
        "ENDS_FROM_NS": f"({part.from_ns})",
    }
    text = _filled(_BINS, values)
    begin_ns, size_bytes = from_ns, 0
    for number, bin_bytes in trace.sql(text).rows:
        start_ns = from_ns + number * width_ns
        if size_bytes + bin_bytes > BLOCK_BYTES:
            if begin_ns < start_ns:
                yield begin_ns, start_ns
            begin_ns, size_bytes = start_ns, 0
            if bin_bytes > BLOCK_BYTES and width_ns > 1:
                begin_ns = min(start_ns + width_ns, to_ns)
                yield from _stretches(trace, part, start_ns, begin_ns)
                continue
        size_bytes += bin_bytes
    if begin_ns < to_ns:
        yield begin_ns, to_ns
