-- Launches: host calls that enqueued device work.
-- Rows are runtime and driver calls that share a correlation ID with a device event, and events marked as launches. On
-- cpu, every op is its own launch.
--
-- Kind:     table
-- Columns:
--   trace_id     INTEGER -> trace
--   launch_id    BIGINT -> event.event_id  launch call
--   correlation  BIGINT                    correlation ID of the device events of the call; shared by graph replays; NULL on cpu
--   pid BIGINT, tid BIGINT -> thread(pid, tid), ts_ns BIGINT, dur_ns BIGINT, end_ns BIGINT
--   name         VARCHAR                   name of the call or op
-- Invariant: dur_ns = end_ns - ts_ns

WITH pointed_at AS (
    SELECT DISTINCT trace_id, correlation
    FROM device_events
    WHERE device <> 'cpu' AND correlation > 0
),

cpu_op AS (
    SELECT trace_id, event_id
    FROM device_events
    WHERE device = 'cpu' AND piece = 0
),

call AS (
    SELECT e.trace_id, e.event_id, e.correlation, e.pid, e.tid, e.ts_ns, e.dur_ns, e.name
    FROM event AS e
    INNER JOIN pointed_at AS p USING (trace_id, correlation)
    WHERE
        is_launch_call(e.category)
        OR (e.trace_id, e.event_id) IN (
            SELECT (trace_id, event_id)
            FROM device_mark
            WHERE role = 'launch'
        )
    UNION ALL
    SELECT e.trace_id, e.event_id, NULL AS correlation, e.pid, e.tid, e.ts_ns, e.dur_ns, e.name
    FROM event AS e
    INNER JOIN cpu_op AS o USING (trace_id, event_id)
)

SELECT
    trace_id, event_id AS launch_id, correlation, pid, tid, ts_ns, dur_ns,
    ts_ns + dur_ns AS end_ns,
    name
FROM call
ORDER BY trace_id, ts_ns, launch_id
