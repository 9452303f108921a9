"""What an export asks for more than once, worked out once and laid in temporary tables.

DuckDB keeps to its limit of memory with them, and spills: a statement that would work out all of
this by itself while it sorts the events holds everything at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracekit.export.selection import Part, Scope
    from tracekit.trace import Trace

BLOCK_BYTES = 16 << 20
"""So much text of events is asked for at a time, bytes."""

_EVENT_BYTES = 200
"""What an event takes besides its name and its arguments, roughly."""

_TABLES = {
    "export_wall": """
        SELECT w.* FROM wall_intervals() AS w
        WHERE w.trace_id IN (SELECT trace_id FROM CHOSEN)
    """,
    # Facts and ends of arrows beside the start of their event: so those of a block are found.
    "export_fact": """
        SELECT f.*, e.ts_ns
        FROM (SELECT trace_id, event_id, ts_ns FROM event) AS e
        INNER JOIN event_facts() AS f ON e.trace_id = f.trace_id AND e.event_id = f.event_id
        WHERE e.trace_id IN (SELECT trace_id FROM CHOSEN)
    """,
    "export_gap": """
        SELECT g.* FROM gap_intervals() AS g
        WHERE g.trace_id IN (SELECT trace_id FROM CHOSEN)
    """,
    "export_arrow": """
        SELECT trace_id, from_id, to_id, row_number() OVER (ORDER BY trace_id, from_id, to_id)
            AS number
        FROM event_arrows()
        WHERE trace_id IN (SELECT trace_id FROM CHOSEN)
    """,
    "export_arrow_end": """
        SELECT a.*, e.ts_ns
        FROM (SELECT trace_id, event_id, ts_ns FROM event) AS e
        INNER JOIN (
            SELECT trace_id, from_id AS event_id, number FROM export_arrow
            UNION ALL
            SELECT trace_id, to_id, -number FROM export_arrow
        ) AS a ON e.trace_id = a.trace_id AND e.event_id = a.event_id
    """,
}
"""Temporary tables by name, in the order in which they are made."""

_BIN_COUNT = 4_096
"""Into so many bins of equal length the time of a trace is cut; blocks are made of whole bins."""

_BINS = f"""
    SELECT (ts_ns - FROM_NS) // WIDTH_NS AS bin, sum(
        {_EVENT_BYTES} + strlen(name) + coalesce(strlen(args), 0) + coalesce(strlen(extra), 0)
    )::BIGINT
    FROM event
    WHERE trace_id = TRACE_ID AND ts_ns >= FROM_NS AND ts_ns < TO_NS
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
    try:
        for name, select in _TABLES.items():
            text = select.replace("CHOSEN", scope.relation())
            trace.sql(f"CREATE OR REPLACE TEMP TABLE {name} AS {text}")
        yield
    finally:
        for name in _TABLES:
            trace.sql(f"DROP TABLE IF EXISTS temp.{name}")


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
            for from_ns, to_ns in _stretches(trace, part.trace_id, first_ns, end_ns):
                yield Block(part, from_ns, to_ns)


def _stretches(trace: Trace, trace_id: int, from_ns: int, to_ns: int) -> Iterator[tuple[int, int]]:
    """Cut a stretch of time into some that hold a block each; a bin with more is cut itself."""
    if from_ns >= to_ns:
        return
    width_ns = -(-(to_ns - from_ns) // _BIN_COUNT)
    values = {"TRACE_ID": trace_id, "WIDTH_NS": width_ns, "FROM_NS": from_ns, "TO_NS": to_ns}
    text = _BINS
    for name, value in values.items():
        text = text.replace(name, f"({value})")
    begin_ns, size_bytes = from_ns, 0
    for number, bin_bytes in trace.sql(text).rows:
        start_ns = from_ns + number * width_ns
        if size_bytes + bin_bytes > BLOCK_BYTES:
            if begin_ns < start_ns:
                yield begin_ns, start_ns
            begin_ns, size_bytes = start_ns, 0
            if bin_bytes > BLOCK_BYTES and width_ns > 1:
                begin_ns = min(start_ns + width_ns, to_ns)
                yield from _stretches(trace, trace_id, start_ns, begin_ns)
                continue
        size_bytes += bin_bytes
    if begin_ns < to_ns:
        yield begin_ns, to_ns
