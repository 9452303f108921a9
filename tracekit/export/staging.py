"""Intermediate results of an export in temporary tables.

DuckDB can spill these tables to disk. A statement that computes the results while it sorts events
would hold all of them in memory. The tables cover the complete trace even if only part of it is
exported, so that attribution does not depend on the selection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import duckdb
from msgspec import Struct

from tracekit.errors import QueryError
from tracekit.export.selection import ALWAYS, Part, Scope
from tracekit.trace import Trace

BLOCK_BYTES = 2 << 20
"""Maximum size of the event text per query, in bytes."""

_EVENT_BYTES = 200
"""Approximate size of an event without its name and arguments, in bytes."""

_BIN_COUNT = 4_096
"""Number of equal time bins per trace; blocks consist of complete bins."""

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


class Block(Struct, frozen=True):
    """Events of one trace that begin in a time interval."""

    part: Part
    from_ns: int
    to_ns: int


_IS_INSIDE = """EXISTS (
    FROM event AS e INNER JOIN CHOSEN ON e.trace_id = chosen.trace_id
    WHERE e.trace_id = a.trace_id AND e.event_id = a.END_id
        AND e.ts_ns < chosen.to_ns AND e.ts_ns + e.dur_ns >= chosen.from_ns
)"""

_TABLES = {
    "export_work": "VIEW FROM attributed_events WHERE trace_id IN (TRACE_IDS)",
    "export_wall": "TABLE FROM wall_intervals('export_work')",
    "export_op": """VIEW
        SELECT trace_id, event_id AS op_id, name, args, pid, tid, ts_ns, ts_ns + dur_ns AS end_ns
        FROM event
        WHERE trace_id IN (TRACE_IDS)
            AND (trace_id, event_id) IN (SELECT (trace_id, op_id) FROM attribution)
    """,
    "export_rate": "TABLE FROM op_rates('export_work', 'export_op')",
    # Facts and arrow ends, with the start time of their event, which determines their block.
    "export_fact": """TABLE
        SELECT f.*, e.ts_ns
        FROM (SELECT trace_id, event_id, ts_ns FROM event) AS e
        INNER JOIN event_facts('export_work', 'export_rate') AS f
            ON e.trace_id = f.trace_id AND e.event_id = f.event_id
    """,
    "export_idle": "VIEW FROM idle_gap WHERE trace_id IN (TRACE_IDS)",
    "export_gap": "TABLE FROM gap_intervals('export_idle')",
    "export_flow": "VIEW FROM record WHERE view_name = 'flow' AND trace_id IN (TRACE_IDS)",
    "export_link": "VIEW FROM attribution WHERE trace_id IN (TRACE_IDS)",
    "export_node": "VIEW FROM launch_context WHERE trace_id IN (TRACE_IDS)",
    "export_arrow": """TABLE
        SELECT trace_id, from_id, to_id, begins AND ends AS is_inside,
            row_number() OVER (ORDER BY trace_id, from_id, to_id) AS number
        FROM (
            SELECT *, INSIDE_FROM AS begins, INSIDE_TO AS ends
            FROM event_arrows('export_flow', 'export_link', 'export_node') AS a
        )
        WHERE begins OR ends
    """,
    # An arrow connects an event with its first segment on the path.
    "export_path": """TABLE
        SELECT p.*, p.start_ns - c.shift_ns AS from_ns,
            CASE WHEN p.event_id IS NOT NULL AND p.of_trace_id = p.trace_id AND row_number() OVER (
                PARTITION BY p.trace_id, p.of_trace_id, p.event_id ORDER BY p.position
            ) = 1 THEN (1::BIGINT << 42) + row_number() OVER (ORDER BY p.trace_id, p.position) END
                AS number
        FROM path_piece AS p
        INNER JOIN graph_clock AS c USING (trace_id)
        WHERE p.trace_id IN (TRACE_IDS)
    """,
    "export_path_arrow": """TABLE
        SELECT a.trace_id, a.event_id, a.number
        FROM (
            SELECT x.trace_id, x.event_id AS one_id, x.event_id, x.number
            FROM export_path AS x
            INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
            WHERE x.number IS NOT NULL AND x.from_ns < chosen.to_ns
                AND x.from_ns + x.end_ns - x.start_ns >= chosen.from_ns
        ) AS a
        WHERE INSIDE_ONE
    """,
    "export_arrow_end": """TABLE
        SELECT a.*, e.ts_ns
        FROM (SELECT trace_id, event_id, ts_ns FROM event) AS e
        INNER JOIN (
            SELECT trace_id, from_id AS event_id, number FROM export_arrow WHERE is_inside
            UNION ALL
            SELECT trace_id, to_id, -number FROM export_arrow WHERE is_inside
            UNION ALL
            SELECT trace_id, event_id, -number FROM export_path_arrow
        ) AS a ON e.trace_id = a.trace_id AND e.event_id = a.event_id
    """,
    "export_queue": "TABLE FROM queued_events() WHERE part.trace_id IN (TRACE_IDS)",
    "export_collective": "TABLE FROM collective_intervals() WHERE trace_id IN (TRACE_IDS)",
}


_MAX_WITH_PATH = 300_000
"""Maximum number of device events for exporting the critical path, because its graph is in
memory."""

_NO_PATH = """TABLE
    SELECT NULL::INTEGER AS trace_id, NULL::BIGINT AS event_id, NULL::BIGINT AS number,
        0 AS from_ns, 0 AS start_ns, 0 AS end_ns
    WHERE FALSE
"""


@contextmanager
def staged(trace: Trace, scope: Scope) -> Iterator[bool]:
    """Create the temporary tables for the statements of scene_queries; drop them at the end.

    Yield whether the critical path is omitted (too many events or too little memory).
    """
    values = {"CHOSEN": scope.relation(), "TRACE_IDS": scope.trace_ids}
    for end in ("from", "to", "one"):
        is_inside = filled(_IS_INSIDE.replace("END", end), values) if scope.is_piece else "TRUE"
        values[f"INSIDE_{end.upper()}"] = is_inside
    created: list[str] = []
    ((count,),) = trace.sql("SELECT count(*) FROM device_events").rows
    has_no_path = count > _MAX_WITH_PATH
    tables = _TABLES | ({"export_path": _NO_PATH} if has_no_path else {})
    try:
        for name, statement in tables.items():
            kind, text = statement.split(maxsplit=1)
            create = f"CREATE OR REPLACE TEMP {kind} {name} AS "
            try:
                trace.sql(create + filled(text, values))
            except QueryError as error:
                is_out = isinstance(error.__cause__, duckdb.OutOfMemoryException)
                if name != "export_path" or not is_out:
                    raise
                trace.sql(create + _NO_PATH.split(maxsplit=1)[1])
                has_no_path = True
            created.append(f"{kind} IF EXISTS temp.{name}")
        yield has_no_path
    finally:
        for one in reversed(created):
            trace.sql(f"DROP {one}")


def has_path(trace: Trace) -> bool:
    """Return whether a critical path exists. Call it inside :func:`staged`."""
    return bool(trace.sql("SELECT 1 FROM export_path LIMIT 1").rows)


def arrows_left_out(trace: Trace) -> int:
    """Return the number of arrows to unselected events. Call it inside :func:`staged`."""
    ((count,),) = trace.sql("SELECT count(*) FROM export_arrow WHERE NOT is_inside").rows
    return int(count)


def blocks_of(trace: Trace, scope: Scope) -> Iterator[Block]:
    """Divide the events of an export into blocks that are queried sequentially.

    A block has at most BLOCK_BYTES of text, unless more events begin at the same time. The blocks
    of a trace are sorted by time.
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
            for from_ns, to_ns in _sections(trace, part, first_ns, end_ns):
                yield Block(part, from_ns, to_ns)


def with_ends(blocks: list[Block]) -> list[Block]:
    """Extend the first and last block of each trace to the limits of its interval.

    Derived values may begin before the first event or after the last one.
    """
    results = []
    for place, block in enumerate(blocks):
        is_first = place == 0 or blocks[place - 1].part != block.part
        is_last = place + 1 == len(blocks) or blocks[place + 1].part != block.part
        from_ns = -ALWAYS if is_first else block.from_ns
        results.append(Block(block.part, from_ns, block.part.to_ns if is_last else block.to_ns))
    return results


def filled(text: str, values: Mapping[str, object]) -> str:
    """Return SQL with placeholders (words in capitals) replaced by their values."""
    return re.sub(r"\b[A-Z_]+\b", lambda match: str(values.get(match[0], match[0])), text)


def _sections(trace: Trace, part: Part, from_ns: int, to_ns: int) -> Iterator[tuple[int, int]]:
    """Divide an interval into blocks; a bin that is too large is divided further."""
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
    text = filled(_BINS, values)
    begin_ns, size_bytes = from_ns, 0
    for number, bin_bytes in trace.sql(text).rows:
        start_ns = from_ns + number * width_ns
        if size_bytes + bin_bytes > BLOCK_BYTES:
            if begin_ns < start_ns:
                yield begin_ns, start_ns
            begin_ns, size_bytes = start_ns, 0
            if bin_bytes > BLOCK_BYTES and width_ns > 1:
                begin_ns = min(start_ns + width_ns, to_ns)
                yield from _sections(trace, part, start_ns, begin_ns)
                continue
        size_bytes += bin_bytes
    if begin_ns < to_ns:
        yield begin_ns, to_ns
