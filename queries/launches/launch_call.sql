-- Launch calls, and whether their device work was recorded.
-- A call captured in a graph that is replayed later counts as recorded. A call with an implausible time has a row only
-- if its work is also missing. Its time is then the time of the call with the previous correlation ID.
--
-- Kind:     table
-- Input:    event_kind WHERE is_launch_call(category)
-- Columns:
--   trace_id     INTEGER -> trace
--   event_id     BIGINT -> record.event_id  call
--   pid BIGINT, tid BIGINT -> thread(pid, tid)
--   ts_ns        BIGINT                     start, ns; like pid and tid, NULL if implausible and no previous call exists
--   is_replay    BOOLEAN                    the call launches a graph
--   is_kernel    BOOLEAN                    the call launches a kernel or graph, not a copy or memset
--   is_captured  BOOLEAN                    the call was captured into a graph instead of executed
--   is_missing   BOOLEAN                    the work of the call is missing in the file or has no usable time

WITH launch_call AS (
    SELECT
        trace_id, event_id, pid, tid, ts_ns, name,
        contains(name, 'StreamBeginCapture')::INTEGER
        - contains(name, 'StreamEndCapture')::INTEGER AS capture_change,
        contains(name, 'GraphLaunch') AS is_replay,
        coalesce(
            (trace_id, correlation) IN (
                SELECT (trace_id, correlation) FROM device_events WHERE correlation IS NOT NULL
            ),
            FALSE
        ) AS has_work
    FROM event
    WHERE
        (is_launch_of_work(category, name) AND correlation IS NOT NULL)
        OR (is_launch_call(category) AND regexp_matches(name, 'Stream(Begin|End)Capture'))
),

-- Captured work runs in a later replay in the same file, so it is not missing.
captured_call AS (
    SELECT
        *,
        coalesce(
            sum(capture_change) FILTER (NOT has_work) OVER (
                PARTITION BY trace_id, pid ORDER BY ts_ns, event_id
            ) > 0,
            FALSE
        ) AS is_captured,
        max(ts_ns) FILTER (is_replay AND has_work AND capture_change = 0) OVER (
            PARTITION BY trace_id
        ) AS last_replay_ts_ns
    FROM launch_call
),

lost_call AS (
    SELECT l.trace_id, l.event_id, l.name, l.correlation
    FROM left_out AS l
    INNER JOIN implausible AS i USING (trace_id, event_id)
    WHERE is_launch_of_work(l.category, l.name) AND l.correlation IS NOT NULL
)

SELECT
    trace_id, event_id, pid, tid, ts_ns, is_replay,
    regexp_matches(name, '(?i)launch') AS is_kernel,
    is_captured AND NOT has_work AS is_captured,
    NOT has_work AND (NOT is_captured OR coalesce(last_replay_ts_ns <= ts_ns, TRUE)) AS is_missing
FROM captured_call
WHERE capture_change = 0
UNION ALL
SELECT
    lost.trace_id, lost.event_id, before.pid, before.tid, before.ts_ns,
    contains(lost.name, 'GraphLaunch') AS is_replay,
    regexp_matches(lost.name, '(?i)launch') AS is_kernel,
    FALSE AS is_captured,
    TRUE AS is_missing
FROM lost_call AS lost
ASOF LEFT JOIN runtime_calls AS before
    ON lost.trace_id = before.trace_id AND lost.correlation >= before.correlation
WHERE (lost.trace_id, lost.correlation) NOT IN (
    SELECT (trace_id, correlation) FROM device_events WHERE correlation IS NOT NULL
)
ORDER BY trace_id, ts_ns, event_id
