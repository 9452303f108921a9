"""Finds implausible records of traces before relations are derived from them.

``queries/events/implausible.sql`` has the rules. Most traces have no such records. Quick checks run
first, because planning the statement takes longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog
from tracekit.database.connections import execute_own, session_of

if TYPE_CHECKING:
    import duckdb

IMPLAUSIBLE = "implausible"
"""Name of the table."""

EVENT_KIND = "event_kind"

_EVENT_KIND = f"""
CREATE OR REPLACE TABLE {EVENT_KIND} AS
SELECT
    trace_id, category,
    CASE
        WHEN is_device_work(category) THEN 'work'
        WHEN is_op(category) OR is_launch_call(category) OR is_annotation(category)
            OR is_python_call(category) THEN 'host'
    END AS side,
    bool_or(starts_with(name, 'hip')) AS has_hip,
    bool_or(contains(name, 'mps') OR starts_with(name, 'npu::') OR starts_with(name, 'hpu::'))
        AS has_special,
    min(ts_ns) FILTER (ts_ns <> 0 OR dur_ns > 0) AS first_ns,
    min(ts_ns) FILTER (ts_ns > 0) AS first_positive_ns,
    max(ts_ns) AS last_ns,
    max(ts_ns + dur_ns) AS end_ns,
    count_if(ts_ns <= 0) AS early_count,
    count_if(ts_ns = 0 AND dur_ns = 0) AS empty_count,
    count_if(dur_ns < if(is_launch_call(category), 50, 400)) AS short_count,
    max(dur_ns) AS longest_ns,
    count(*) AS record_count
FROM event
GROUP BY trace_id, category
"""
"""Categories of each trace, with their kind, the times of their events, and whether event names
need a detailed check."""

_FAR_TIMES = f"""
SELECT 1
FROM {EVENT_KIND}
GROUP BY trace_id
HAVING
    sum(empty_count) FILTER (side = 'work') > 0
    OR 2 * sum(short_count) FILTER (side = 'work') > sum(record_count) FILTER (side = 'work')
    OR 2 * sum(short_count) FILTER (is_launch_call(category))
    > sum(record_count) FILTER (is_launch_call(category))
    OR max(longest_ns) FILTER (side = 'work')
    > max(end_ns) FILTER (side = 'host') - min(first_ns) FILTER (side = 'host')
    OR (sum(early_count) > 0 AND min(first_positive_ns) >= 3600000000000)
    OR max(end_ns) - min(first_ns) > 1000000000000000
    OR min(first_ns) FILTER (side = 'work') < min(first_ns) FILTER (side = 'host') - 1000000
    OR max(end_ns) FILTER (side = 'work') > max(end_ns) FILTER (side = 'host') + 1000000000
LIMIT 1
"""

_ODD_WORK = """
WITH followed AS (
    SELECT ts_ns, dur_ns, lead(ts_ns) OVER on_stream AS next_ts_ns,
        lead(dur_ns) OVER on_stream AS next_dur_ns
    FROM event
    WHERE is_device_work(category) AND dur_ns > 0
    WINDOW on_stream AS (
        PARTITION BY trace_id, pid, device, stream ORDER BY ts_ns, dur_ns, correlation
    )
)
SELECT 1
FROM followed
WHERE ts_ns + dur_ns > next_ts_ns + 100000 OR (ts_ns = next_ts_ns AND dur_ns = next_dur_ns)
LIMIT 1
"""
_OPEN_CALLS = """
WITH frame AS MATERIALIZED (
    SELECT trace_id, pid, tid, python_id, coalesce(python_parent_id, -1) AS parent_id, ts_ns,
        ts_ns + dur_ns AS end_ns
    FROM event
    WHERE is_python_call(category) AND python_id IS NOT NULL
),
last_frame AS MATERIALIZED (
    SELECT f.*
    FROM frame AS f
    INNER JOIN (
        SELECT trace_id, pid, tid, max(end_ns) AS last_end_ns
        FROM frame
        GROUP BY trace_id, pid, tid
    ) AS e USING (trace_id, pid, tid)
    WHERE f.end_ns >= e.last_end_ns - 1000
)
(
    SELECT 1
    FROM last_frame AS f
    INNER JOIN (
        SELECT trace_id, pid, tid, parent_id, max(ts_ns) AS last_ts_ns
        FROM frame
        WHERE parent_id IN (SELECT parent_id FROM last_frame)
        GROUP BY trace_id, pid, tid, parent_id
    ) AS other USING (trace_id, pid, tid, parent_id)
    WHERE f.ts_ns < other.last_ts_ns
    UNION ALL
    SELECT 1
    FROM last_frame AS f
    INNER JOIN frame AS caller
        ON f.trace_id = caller.trace_id AND f.parent_id = caller.python_id
    WHERE caller.end_ns < f.end_ns - 1000
)
LIMIT 1
"""
"""Quick checks, without false negatives."""

_HAS_CALLS = f"SELECT 1 FROM {EVENT_KIND} WHERE is_python_call(category) LIMIT 1"

_APPLY = f"""
UPDATE record SET view_name = 'left_out' FROM {IMPLAUSIBLE} AS judged
WHERE record.trace_id = judged.trace_id AND record.event_id = judged.event_id
    AND judged.counted_ns IS NULL;
UPDATE record SET dur_ns = judged.counted_ns FROM {IMPLAUSIBLE} AS judged
WHERE record.trace_id = judged.trace_id AND record.event_id = judged.event_id
    AND judged.counted_ns IS NOT NULL;
UPDATE trace SET first_ts_ns = counted.first_ns, last_end_ns = counted.end_ns,
    complete_count = counted.event_count,
    left_out_count = trace.complete_count - counted.event_count
FROM (
    SELECT trace.trace_id, min(event.ts_ns) AS first_ns, max(event.ts_ns + event.dur_ns) AS end_ns,
        count(event.event_id) AS event_count
    FROM trace
    LEFT JOIN event USING (trace_id)
    GROUP BY trace.trace_id
) AS counted
WHERE trace.trace_id = counted.trace_id
"""
"""Moves excluded records from view event to another view, and shortens cut records."""


def create_event_kinds(connection: duckdb.DuckDBPyConnection) -> None:
    """Create table ``event_kind`` from the current rows of view event."""
    connection.execute(_EVENT_KIND)


def judge_records(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill table ``implausible``, exclude or cut its records, and fill table ``event_kind``.

    Call it before adding events of other recordings, which it must not check.
    """
    row_counts = session_of(connection).row_counts
    if IMPLAUSIBLE in row_counts:
        return
    create_event_kinds(connection)
    screens = [_FAR_TIMES, _ODD_WORK]
    if connection.execute(_HAS_CALLS).fetchone():
        screens.append(_OPEN_CALLS)
    if any(connection.execute(sql).fetchone() for sql in screens):
        # In a transaction, so that a retry after running out of memory starts with unchanged
        # records.
        connection.begin()
        try:
            _judge(connection)
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
    row_counts[IMPLAUSIBLE] = None


def _judge(connection: duckdb.DuckDBPyConnection) -> None:
    execute_own(connection, f"INSERT INTO {IMPLAUSIBLE}\n{load_catalog().tables[IMPLAUSIBLE].sql}")
    if connection.execute(f"SELECT 1 FROM {IMPLAUSIBLE} LIMIT 1").fetchone():
        connection.execute(_APPLY)
        create_event_kinds(connection)
