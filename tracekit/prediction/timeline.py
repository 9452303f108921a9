"""Writes a predicted run as a Chrome trace with the predicted times.

Calls and work have the times of the replay. The times of other events of a thread (ops, ranges,
Python) are interpolated between the nodes of the thread, so that nesting is unchanged. Work that a
method adds has the name of the copied work and an argument that marks it as predicted.
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

_ON_DEVICE = ("kernel", "gpu_memcpy")

_LEFT_NS = f"{left_ns('usual')} + contended_ns"

_WORK = """
SELECT
    t.rank, s.trace_id, s.name, if(s.work_kind = 'memcpy', 'gpu_memcpy', 'kernel') AS category,
    s.device AS pid, s.stream AS tid, coalesce(s.correlation, l.correlation) AS correlation,
    begun.at_ns AS begin_ns, ended.at_ns - begun.at_ns AS took_ns, e.args, w.copies,
    FALSE AS is_added
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

# Of several nodes with the same time, ends use the first, and starts the last.
_HOST = f"""
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
    INNER JOIN {{at}} AS first ON first_node = first.node
    INNER JOIN {{at}} AS last ON last_node = last.node
    WHERE tid IS NOT NULL
    GROUP BY ALL
),

-- Events before the first node of a thread move with that node.
point AS (
    FROM node
    UNION ALL
    SELECT
        trace_id, pid, tid, min(recorded_ns) - {1 << 50}, NULL,
        arg_min(end_ns, recorded_ns) - {1 << 50}
    FROM node
    GROUP BY ALL
),

piece AS (
    SELECT
        (trace_id, pid, tid) AS part, recorded_ns, at_ns,
        coalesce(
            (lead(end_ns) OVER thread - at_ns) / (lead(recorded_ns) OVER thread - recorded_ns), 1
        ) AS ratio
    FROM point
    WINDOW thread AS (PARTITION BY trace_id, pid, tid ORDER BY recorded_ns)
),

host AS (
    SELECT
        e.trace_id, e.event_id, e.pid, e.tid, e.name, e.category, e.args, e.correlation,
        (e.trace_id, e.pid, e.tid) AS part,
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
)

SELECT
    t.rank, h.trace_id, h.name, h.category, h.pid, h.tid, h.correlation,
    round(p.at_ns + (h.start_ns - p.recorded_ns) * p.ratio)::BIGINT AS begin_ns,
    greatest(
        round(q.at_ns + (h.end_ns - q.recorded_ns) * q.ratio)::BIGINT - begin_ns, 0
    ) AS took_ns,
    h.args, h.copies, FALSE AS is_added
FROM host AS h
INNER JOIN trace AS t USING (trace_id)
ASOF INNER JOIN piece AS p ON h.part = p.part AND h.start_ns >= p.recorded_ns
ASOF INNER JOIN piece AS q ON h.part = q.part AND h.end_ns > q.recorded_ns
ORDER BY h.trace_id, begin_ns, h.event_id
"""

# Added events: copies of launch calls (with op and links), GPU work, and CPU ops, and the batches
# of added data loader workers.
_ADDED = f"""
WITH added AS (
    SELECT
        t.rank, t.trace_id, coalesce(s.name, 'batch of worker ' || a.worker) AS name,
        CASE
            WHEN a.worker IS NOT NULL THEN 'user_annotation'
            WHEN near.tid IS NOT NULL THEN e.category
            WHEN s.work_kind = 'memcpy' THEN 'gpu_memcpy'
            ELSE 'kernel'
        END AS category,
        coalesce(near.pid::VARCHAR, near.device) AS pid,
        coalesce(2_000_000_000 + a.worker, near.tid, near.stream) AS tid,
        if(
            s.kind = 'call' OR near.tid IS NULL,
            coalesce(s.launch_id, s.event_id)
            + (SELECT least(max(correlation), 1::BIGINT << 40) FROM event),
            NULL
        ) AS correlation,
        ended.at_ns - coalesce(a.ns, {_LEFT_NS}) AS begin_ns,
        coalesce(a.ns, {_LEFT_NS}) AS took_ns,
        e.args, w.copies, TRUE AS is_added,
        if(s.kind = 'call', w.op, NULL) AS op,
        if(
            near.tid IS NOT NULL,
            'tk/module/recompute/' || a.root || coalesce('#' || m.class, ''),
            NULL
        ) AS module,
        a.near_id
    FROM added_work AS a
    INNER JOIN {{at}} AS ended ON a.end_node = ended.node
    INNER JOIN graph_span AS near ON a.near_id = near.span_id
    INNER JOIN trace AS t ON near.trace_id = t.trace_id
    LEFT JOIN graph_span AS s ON a.span_id = s.span_id
    LEFT JOIN event AS e ON s.trace_id = e.trace_id AND s.event_id = e.event_id
    LEFT JOIN changed_edge AS w ON a.end_node = w.target_node AND w.kind IN ('call', 'work')
    LEFT JOIN (SELECT trace_id, path, min(class) AS class FROM module GROUP BY ALL) AS m
        ON t.trace_id = m.trace_id AND a.root = m.path
)
SELECT * EXCLUDE (op, module, near_id)
FROM added
UNION ALL BY NAME
SELECT rank, trace_id, op AS name, 'cpu_op' AS category, pid, tid, begin_ns, took_ns, is_added
FROM added
WHERE op IS NOT NULL
UNION ALL BY NAME
SELECT
    rank, trace_id, module AS name, 'user_annotation' AS category, pid, tid,
    min(begin_ns) AS begin_ns, max(begin_ns + took_ns) - min(begin_ns) AS took_ns, is_added
FROM added
WHERE module IS NOT NULL
GROUP BY rank, trace_id, module, pid, tid, near_id, is_added
"""

_ITS_OWN = ("External id", "Sequence number", "Fwd thread id", "Python id", "Python parent id")
"""Arguments that link an event to other events. They are removed from copies."""


def write_timeline(connection: duckdb.DuckDBPyConnection, at: str, path: Path) -> None:
    """Write the run with the replayed times in table `at`; in a folder, one file per rank."""
    by_trace: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for statement in (_WORK, _HOST, _ADDED):
        for row in connection.execute(statement.format(at=at)).fetchall():
            by_trace[row[1]] += _events(*row)
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


def _write(path: Path, events: Sequence[dict[str, Any]], metadata: str | None) -> None:
    document: dict[str, object] = json.loads(metadata) if metadata else {}
    document.pop("baseTimeNanoseconds", None)
    document |= {"traceEvents": events, "displayTimeUnit": "ms", "predicted": True}
    try:
        LocalLocation(path).write_bytes(json.dumps(document, ensure_ascii=True).encode())
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error


def _events(
    rank: int | None, trace_id: int, name: str, category: str, pid: str, tid: int,
    correlation: int | None, begin_ns: int, took_ns: int, text: str | None, copies: float | None,
    is_added: bool,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield an event per repetition of its work, with times in ns; the last may be partial."""
    result = json.loads(text) if text else {}
    args = {**result} if isinstance(result, dict) else {}
    if is_added:
        args = {key: args[key] for key in args if key not in _ITS_OWN} | {"predicted": True}
    if category in _ON_DEVICE:
        args |= {"device": int(pid) if pid.isdecimal() else pid, "stream": tid}
    args["rank"] = trace_id if rank is None else rank
    if correlation is not None:
        args["correlation"] = correlation
    event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    count = max(copies or 1.0, 1.0)
    ends = [round(took_ns * min(i / count, 1)) for i in range(math.ceil(count - 1e-9) + 1)]
    for number, (begin, end) in enumerate(pairwise(ends)):
        repeated = {**args, "predicted": True} if number else args
        yield {**event, "ts": begin_ns + begin, "dur": end - begin, "args": repeated}
