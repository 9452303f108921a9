"""Writes a predicted run as a Chrome trace with the predicted times.

Calls and work have the times of the replay. Other events of a thread (ops, ranges, Python) move
with them, in proportion between two nodes of their thread, so that nesting is unchanged. Work that
a method adds has the name of what it copies and an argument that marks it as predicted.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import StoreError
from tracekit.prediction.edges import left_ns
from tracekit.storage.local import LocalLocation
from tracekit.units import NS_PER_US

if TYPE_CHECKING:
    import duckdb

_FAR_NS = 1 << 50

_ON_DEVICE = ("kernel", "gpu_memcpy")

_PREDICTED = '{"predicted": true}'

_WORK = """
SELECT
    t.rank, t.trace_id, s.name, s.work_kind, s.device, s.stream,
    coalesce(s.correlation, l.correlation), begun.at_ns, ended.at_ns - begun.at_ns, e.args, w.copies
FROM graph_span AS s
INNER JOIN {at} AS begun ON s.span_id * 2 = begun.node
INNER JOIN {at} AS ended ON s.span_id * 2 + 1 = ended.node
INNER JOIN trace AS t USING (trace_id)
INNER JOIN event AS e ON s.trace_id = e.trace_id AND s.event_id = e.event_id
LEFT JOIN changed_edge AS w ON ended.node = w.target_node AND w.kind = 'work'
LEFT JOIN launch AS l ON s.trace_id = l.trace_id AND s.launch_id = l.launch_id
WHERE s.kind = 'work' AND s.tid IS NULL AND (ended.at_ns > begun.at_ns OR e.dur_ns = 0)
ORDER BY s.trace_id, begun.at_ns, s.span_id
"""

# For nodes at the same time: ends are moved before the first, and starts after the last.
_HOST = """
WITH node AS (
    SELECT trace_id, pid, tid, recorded_ns, min(first.at_ns) AS end_ns, max(last.at_ns) AS at_ns
    FROM (
        SELECT trace_id, pid, tid, start_ns AS recorded_ns, span_id * 2 AS first_node,
            first_node AS last_node
        FROM graph_span
        UNION ALL
        SELECT trace_id, pid, tid, end_ns, span_id * 2 + 1, span_id * 2 + 1
        FROM graph_span
        UNION ALL
        SELECT s.trace_id, s.pid, s.tid, e.recorded_ns, e.first_node, e.last_node
        FROM entered_thread AS e
        INNER JOIN graph_span AS s ON e.near_id = s.span_id
    )
    INNER JOIN {at} AS first ON first_node = first.node
    INNER JOIN {at} AS last ON last_node = last.node
    WHERE tid IS NOT NULL
    GROUP BY ALL
),

-- What began before the first node of its thread keeps its distance.
point AS (
    FROM node
    UNION ALL
    SELECT
        trace_id, pid, tid, min(recorded_ns) - {far}, NULL, arg_min(end_ns, recorded_ns) - {far}
    FROM node
    GROUP BY ALL
),

piece AS (
    SELECT
        *,
        lead(recorded_ns) OVER thread AS next_recorded_ns,
        lead(end_ns) OVER thread AS next_at_ns
    FROM point
    WINDOW thread AS (PARTITION BY trace_id, pid, tid ORDER BY recorded_ns)
),

host AS (
    SELECT
        e.trace_id, e.event_id, e.pid, e.tid, e.name, e.category, e.args, e.correlation,
        e.ts_ns + c.shift_ns AS start_ns,
        e.ts_ns + e.dur_ns + c.shift_ns AS end_ns,
        w.copies
    FROM event AS e
    INNER JOIN graph_clock AS c USING (trace_id)
    LEFT JOIN graph_span AS s
        ON e.trace_id = s.trace_id AND e.event_id = s.event_id AND s.work_kind = 'compute'
            AND e.ts_ns + c.shift_ns = s.start_ns AND s.end_ns = s.start_ns + e.dur_ns
    LEFT JOIN changed_edge AS w ON s.span_id * 2 + 1 = w.target_node AND w.kind = 'work'
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
    greatest(round(
        p.at_ns + (b.end_ns - p.recorded_ns)
        * coalesce((p.next_at_ns - p.at_ns) / (p.next_recorded_ns - p.recorded_ns), 1)
    )::BIGINT - b.at_ns, 0),
    b.args, b.copies
FROM begun AS b
INNER JOIN trace AS t USING (trace_id)
ASOF INNER JOIN piece AS p
    ON b.trace_id = p.trace_id AND b.pid = p.pid AND b.tid = p.tid
        AND b.end_ns > p.recorded_ns
ORDER BY b.trace_id, b.at_ns, b.event_id
"""

# Copies of calls with their op and links, of work, and of CPU ops; batches of workers.
_ADDED = """
SELECT
    t.rank, t.trace_id, coalesce(s.name, 'batch of worker ' || a.worker),
    CASE
        WHEN a.worker IS NOT NULL THEN 'user_annotation'
        WHEN near.tid IS NOT NULL THEN e.category
        WHEN s.work_kind = 'memcpy' THEN 'gpu_memcpy'
        ELSE 'kernel'
    END,
    coalesce(near.pid::VARCHAR, near.device),
    coalesce({worker_tid} + a.worker, near.tid, near.stream),
    if(
        s.kind = 'call' OR near.tid IS NULL,
        coalesce(s.launch_id, s.event_id)
        + (SELECT least(max(correlation), 1::BIGINT << 40) FROM event),
        NULL
    ),
    ended.at_ns - coalesce(a.ns, {left}), coalesce(a.ns, {left}), e.args, w.copies,
    if(s.kind = 'call', w.op, NULL),
    if(
        near.tid IS NOT NULL,
        'tk/module/recompute/' || a.root || coalesce('#' || m.class, ''),
        NULL
    ),
    a.near_id
FROM added_work AS a
INNER JOIN {at} AS ended ON a.end_node = ended.node
INNER JOIN graph_span AS near ON a.near_id = near.span_id
INNER JOIN trace AS t ON near.trace_id = t.trace_id
LEFT JOIN graph_span AS s ON a.span_id = s.span_id
LEFT JOIN event AS e ON s.trace_id = e.trace_id AND s.event_id = e.event_id
LEFT JOIN changed_edge AS w ON a.end_node = w.target_node AND w.kind IN ('call', 'work')
LEFT JOIN (SELECT trace_id, path, min(class) AS class FROM module GROUP BY ALL) AS m
    ON t.trace_id = m.trace_id AND a.root = m.path
ORDER BY ended.at_ns, a.end_node
"""

_WORKER_TID = 2_000_000_000

_ITS_OWN = ("External id", "Sequence number", "Fwd thread id", "Python id", "Python parent id")
"""Arguments that link an event to others, which its copy does not have."""


def write_timeline(connection: duckdb.DuckDBPyConnection, at: str, path: Path) -> None:
    """Write the run at the times of a replay.

    Args:
        connection: one that has the graph and the replayed edges.
        at: the table of the replay.
        path: the file, which is written completely or not at all; or a folder, for a file per rank.

    Raises:
        StoreError: it cannot be written.
    """
    by_trace: dict[int, list[dict[str, Any]]] = defaultdict(list)
    names = {
        "at": at, "far": _FAR_NS, "left": f"{left_ns('usual')} + contended_ns",
        "worker_tid": _WORKER_TID,
    }  # fmt: skip
    for row in connection.execute(_WORK.format(**names)).fetchall():
        *named, work_kind, device, stream, correlation, start_ns, dur_ns, args, copies = row
        category = "gpu_memcpy" if work_kind == "memcpy" else "kernel"
        where = (category, device, stream, correlation)
        by_trace[row[1]] += _repeated(_event(named, where, start_ns, dur_ns, args), copies)
    for row in connection.execute(_HOST.format(**names)).fetchall():
        *named, category, pid, tid, correlation, start_ns, dur_ns, args, copies = row
        where = (category, pid, tid, correlation)
        by_trace[row[1]] += _repeated(_event(named, where, start_ns, dur_ns, args), copies)
    modules: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in connection.execute(_ADDED.format(**names)).fetchall():
        *found, module, near_id = row
        by_trace[row[1]] += _added(found)
        if module is not None:
            start_ns, dur_ns = found[7:9]
            key = (*row[:2], module, *row[4:6], near_id)
            begun_ns, _ = modules.get(key, (start_ns, 0))
            modules[key] = begun_ns, start_ns + dur_ns - begun_ns
    for (*named, pid, tid, _), (start_ns, dur_ns) in modules.items():
        where = ("user_annotation", pid, tid, None)
        by_trace[named[1]].append(_event(named, where, start_ns, dur_ns, _PREDICTED))
    events = [event for one in by_trace.values() for event in one]
    origin_ns = min((event["ts"] for event in events), default=0)
    for event in events:
        event["ts"] = (event["ts"] - origin_ns) / NS_PER_US
        event["dur"] /= NS_PER_US
    recorded = dict(connection.execute("SELECT trace_id, metadata FROM trace").fetchall())
    if not path.is_dir():
        _write(path, events, recorded.popitem()[1] if len(recorded) == 1 else None)
        return
    for trace_id, metadata in recorded.items():
        if of_trace := by_trace[trace_id]:
            _write(path / f"rank{of_trace[0]['args']['rank']}.json", of_trace, metadata)


def _repeated(event: dict[str, Any], copies: float | None) -> Iterator[dict[str, Any]]:
    """Yield an event as often as its work is repeated, the last time in part."""
    count = max(copies or 1.0, 1.0)
    ends = [round(event["dur"] * min(i / count, 1)) for i in range(math.ceil(count - 1e-9) + 1)]
    for number, (begin, end) in enumerate(pairwise(ends)):
        args = event["args"] | ({"predicted": True} if number else {})
        yield event | {"ts": event["ts"] + begin, "dur": end - begin, "args": args}


def _added(row: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield events that a method adds: an op around a call, the call, work, or a worker's batch."""
    *named, category, pid, tid, correlation, start_ns, dur_ns, args, copies, op = row
    if op is not None:
        yield _event([*named[:2], op], ("cpu_op", pid, tid, None), start_ns, dur_ns, _PREDICTED)
    event = _event(named, (category, pid, tid, correlation), start_ns, dur_ns, args)
    event["args"] = {key: event["args"][key] for key in event["args"] if key not in _ITS_OWN}
    event["args"]["predicted"] = True
    yield from _repeated(event, copies)


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
) -> dict[str, Any]:
    """Return an event with times in ns."""
    rank, trace_id, name = named
    category, pid, tid, correlation = where
    found = json.loads(args) if args else {}
    new_args = {**found} if isinstance(found, dict) else {}
    if category in _ON_DEVICE:
        new_args |= {"device": int(pid) if pid.isdecimal() else pid, "stream": tid}
    new_args["rank"] = trace_id if rank is None else rank
    if correlation is not None:
        new_args["correlation"] = correlation
    event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    return {**event, "ts": start_ns, "dur": dur_ns, "args": new_args}
