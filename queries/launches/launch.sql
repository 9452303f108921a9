-- Which calls put the device's work there?
-- The runtime and driver calls that a device event points to, and what is marked as a launch. On cpu every op is its own
-- launch.
--
-- Kind:     table
-- Columns:
--   trace_id     INTEGER -> trace            the trace
--   launch_id    BIGINT -> event.event_id    the call, as event_id in table event
--   correlation  BIGINT                      links its device events; graph replays share one; NULL on cpu
--   pid          BIGINT                      process id
--   tid          BIGINT -> thread(pid, tid)  thread id
--   ts_ns        BIGINT                      start, ns
--   dur_ns       BIGINT                      duration, ns
--   end_ns       BIGINT                      end, ns
--   name         VARCHAR                     the call, or the op
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
