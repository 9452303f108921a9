"""Writes a predicted run as a Chrome trace: work of devices, and what the host did, at new times.

Calls and work stand where the replay puts them. What else ran on a thread (ops, ranges, Python)
is moved with them: between two nodes of its thread in proportion, so that it nests as it did.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import StoreError
from tracekit.storage.local import LocalLocation
from tracekit.units import NS_PER_US

if TYPE_CHECKING:
    import duckdb

_FAR_NS = 1 << 50

_WORK = """
SELECT
    t.rank, t.trace_id, s.name, s.work_kind, s.device, s.stream,
    coalesce(s.correlation, l.correlation), begun.at_ns, ended.at_ns - begun.at_ns, e.args
FROM graph_span AS s
INNER JOIN {at} AS begun ON s.span_id * 2 = begun.node
INNER JOIN {at} AS ended ON s.span_id * 2 + 1 = ended.node
INNER JOIN trace AS t USING (trace_id)
INNER JOIN event AS e ON s.trace_id = e.trace_id AND s.event_id = e.event_id
LEFT JOIN launch AS l ON s.trace_id = l.trace_id AND s.launch_id = l.launch_id
WHERE s.kind = 'work' AND s.tid IS NULL AND (ended.at_ns > begun.at_ns OR e.dur_ns = 0)
ORDER BY s.trace_id, begun.at_ns, s.span_id
"""

# Of two nodes at one moment the later one in the replay counts: what follows them is behind it.
_HOST = """
WITH node AS (
    SELECT s.trace_id, s.pid, s.tid, moment.recorded_ns, max(r.at_ns) AS at_ns
    FROM graph_span AS s,
        (VALUES (0), (1)) AS side(odd),
        LATERAL (SELECT if(side.odd = 0, s.start_ns, s.end_ns) AS recorded_ns) AS moment
    INNER JOIN {at} AS r ON s.span_id * 2 + side.odd = r.node
    WHERE s.tid IS NOT NULL
    GROUP BY ALL
),

-- What began before the first node of its thread keeps its distance.
point AS (
    FROM node
    UNION ALL
    SELECT trace_id, pid, tid, min(recorded_ns) - {far}, arg_min(at_ns, recorded_ns) - {far}
    FROM node
    GROUP BY ALL
),

piece AS (
    SELECT
        *,
        lead(recorded_ns) OVER thread AS next_recorded_ns,
        lead(at_ns) OVER thread AS next_at_ns
    FROM point
    WINDOW thread AS (PARTITION BY trace_id, pid, tid ORDER BY recorded_ns)
),

host AS (
    SELECT
        e.trace_id, e.event_id, e.pid, e.tid, e.name, e.category, e.args, e.correlation,
        e.ts_ns + c.shift_ns AS start_ns,
        e.ts_ns + e.dur_ns + c.shift_ns AS end_ns
    FROM event AS e
    INNER JOIN graph_clock AS c USING (trace_id)
    WHERE
        is_op(e.category) OR is_annotation(e.category)
        OR is_python_call(e.category) OR is_launch_call(e.category)
),

begun AS (
    SELECT
        h.*,
        round(
            p.at_ns + (h.start_ns - p.recorded_ns)
            * coalesce((p.next_at_ns - p.at_ns) / (p.next_recorded_ns - p.recorded_ns), 1)
        )::BIGINT AS at_ns
    FROM host AS h
    ASOF INNER JOIN piece AS p
        ON h.trace_id = p.trace_id AND h.pid = p.pid AND h.tid = p.tid
            AND h.start_ns >= p.recorded_ns
)

SELECT
    t.rank, b.trace_id, b.name, b.category, b.pid, b.tid, b.correlation,
    b.at_ns,
    round(
        p.at_ns + (b.end_ns - p.recorded_ns)
        * coalesce((p.next_at_ns - p.at_ns) / (p.next_recorded_ns - p.recorded_ns), 1)
    )::BIGINT - b.at_ns,
    b.args
FROM begun AS b
INNER JOIN trace AS t USING (trace_id)
ASOF INNER JOIN piece AS p
    ON b.trace_id = p.trace_id AND b.pid = p.pid AND b.tid = p.tid
        AND b.end_ns >= p.recorded_ns
ORDER BY b.trace_id, b.at_ns, b.event_id
"""


def write_timeline(connection: duckdb.DuckDBPyConnection, at: str, path: Path) -> None:
    """Write what ran, at the times of a replay.

    Args:
        connection: one that has the graph.
        at: the table of the replay.
        path: the file, which is written whole or not at all; or a folder, for a file of each rank.

    Raises:
        StoreError: it cannot be written.
    """
    by_trace: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(_WORK.format(at=at)).fetchall():
        *named, work_kind, device, stream, correlation, start_ns, dur_ns, args = row
        category = "gpu_memcpy" if work_kind == "memcpy" else "kernel"
        more = {"device": int(device) if device.isdecimal() else device, "stream": stream}
        where = (category, device, stream, correlation)
        by_trace[row[1]].append(_event(named, where, start_ns, dur_ns, args, more))
    for row in connection.execute(_HOST.format(at=at, far=_FAR_NS)).fetchall():
        *named, category, pid, tid, correlation, start_ns, dur_ns, args = row
        where = (category, pid, tid, correlation)
        by_trace[row[1]].append(_event(named, where, start_ns, dur_ns, args, {}))
    events = [event for one in by_trace.values() for event in one]
    origin_ns = min((event["ts"] for event in events), default=0)
    for event in events:
        event["ts"] = (event["ts"] - origin_ns) / NS_PER_US
    recorded = dict(connection.execute("SELECT trace_id, metadata FROM trace").fetchall())
    if not path.is_dir():
        _write(path, events, recorded.popitem()[1] if len(recorded) == 1 else None)
        return
    for trace_id, metadata in recorded.items():
        if of_trace := by_trace[trace_id]:
            _write(path / f"rank{of_trace[0]['args']['rank']}.json", of_trace, metadata)


def _write(path: Path, events: Sequence[dict[str, Any]], metadata: str | None) -> None:
    document: dict[str, object] = json.loads(metadata) if metadata else {}
    document.pop("baseTimeNanoseconds", None)
    document |= {"traceEvents": events, "displayTimeUnit": "ms", "predicted": True}
    try:
        LocalLocation(path).write_bytes(json.dumps(document, ensure_ascii=True).encode())
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error


def _event(
    named: Sequence[Any],
    where: tuple[Any, ...],
    start_ns: int,
    dur_ns: int,
    args: str | None,
    more: dict[str, object],
) -> dict[str, Any]:
    """Return an event, its start still in ns."""
    rank, trace_id, name = named
    category, pid, tid, correlation = where
    found = json.loads(args) if args else {}
    told = {**(found if isinstance(found, dict) else {}), **more}
    told["rank"] = trace_id if rank is None else rank
    if correlation is not None:
        told["correlation"] = correlation
    event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    return {**event, "ts": start_ns, "dur": dur_ns / NS_PER_US, "args": told}
