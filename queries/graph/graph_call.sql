-- Runtime and driver calls that order host and device work.
-- Launches, waits, event and stream calls, and other calls of at least 8 µs; of nested calls the outer one, unless only
-- the inner one launches work.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> event, pid BIGINT, tid BIGINT -> thread(pid, tid)
--   ts_ns BIGINT, end_ns BIGINT, name VARCHAR, correlation BIGINT
--   is_launch  BOOLEAN  recorded device work points to this call
--   wait       VARCHAR  kind in host_waits; NULL if it waits for nothing
-- Invariant: ts_ns <= end_ns

WITH call AS (
    SELECT
        e.trace_id, e.event_id, e.pid, e.tid, e.ts_ns,
        e.ts_ns + e.dur_ns AS end_ns,
        e.name, e.correlation,
        l.launch_id IS NOT NULL AS is_launch,
        w.kind AS wait
    FROM event AS e
    LEFT JOIN launch AS l ON e.trace_id = l.trace_id AND e.event_id = l.launch_id
    LEFT JOIN host_waits AS w ON e.trace_id = w.trace_id AND e.event_id = w.event_id
    WHERE is_launch_call(e.category)
),

top_launch AS (
    SELECT *
    FROM call
    WHERE is_launch
    QUALIFY
        coalesce(gap_before_ns((trace_id, pid, tid), ts_ns, end_ns, (-end_ns, event_id)), 0) >= 0
),

other_call AS (
    SELECT c.*
    FROM call AS c
    ASOF LEFT JOIN top_launch AS l
        ON c.trace_id = l.trace_id AND c.pid = l.pid AND c.tid = l.tid AND c.end_ns > l.ts_ns
    WHERE
        NOT c.is_launch
        AND (
            c.wait IS NOT NULL
            OR c.end_ns - c.ts_ns >= 8000
            OR regexp_matches(c.name, 'Event(Record|Synchronize)|WaitEvent|Synchronize')
        )
        AND coalesce(l.end_ns <= c.ts_ns, TRUE)
)

SELECT *
FROM top_launch
UNION ALL
SELECT *
FROM other_call
QUALIFY
    coalesce(gap_before_ns((trace_id, pid, tid), ts_ns, end_ns, (-end_ns, event_id)), 0) >= 0
ORDER BY trace_id, pid, tid, ts_ns, end_ns, event_id
