-- Waits of host threads, by kind.
-- Waits are recognized by name (`host_wait_names`). An asynchronous copy counts if its memory is pageable or, for
-- unknown memory, if the call was still running when the copy started. A synchronous device-to-device copy counts if
-- its call outlasted the copy (CUDA Runtime API, "API synchronization behavior"). A synchronization waits for
-- unrecorded work if it outlasts all recorded work by more than longest_hold_ns and half of its own duration.
--
-- Kind:     table
-- Columns:
--   trace_id  INTEGER -> trace
--   event_id  BIGINT -> event  call, op, or range
--   pid BIGINT, tid BIGINT -> thread(pid, tid), ts_ns BIGINT, dur_ns BIGINT
--   kind      VARCHAR          data_loading, allocator, comm_wait, sync, copy, lock (another thread), or unrecorded (work missing in the trace)
-- Invariant: dur_ns > 0

WITH timed_call AS (
    SELECT
        trace_id, event_id, pid, tid, name, correlation, ts_ns, dur_ns, CASE
            WHEN is_launch_call(category) THEN host_call_wait(name)
            ELSE host_range_wait(category, name)
        END AS kind
    FROM event
    WHERE dur_ns > 0
),

waiting_call AS (SELECT * FROM timed_call WHERE kind IS NOT NULL),

copied_work AS (
    SELECT
        trace_id, correlation,
        min(ts_ns) AS ts_ns,
        max(end_ns) AS end_ns,
        bool_and(copy_of(class) = 'd2d') AS is_on_device,
        bool_and(name ILIKE '%pinned%') AS is_pinned,
        bool_or(name ILIKE '%pageable%') AS is_pageable
    FROM device_events
    WHERE kind = 'memcpy' AND correlation > 0
    GROUP BY trace_id, correlation
),

work_end AS (
    SELECT
        trace_id, ts_ns,
        greatest(end_ns, latest_end_before_ns(trace_id, ts_ns, end_ns, event_id)) AS end_ns
    FROM device_events
)

SELECT
    n.trace_id, n.event_id, n.pid, n.tid, n.ts_ns, n.dur_ns, CASE
        WHEN
            n.kind = 'sync'
            AND n.trace_id IN (SELECT trace_id FROM device_events WHERE device <> 'cpu')
            AND n.ts_ns + n.dur_ns - greatest(n.ts_ns, coalesce(d.end_ns, 0))
            > greatest(longest_hold_ns(), 0.5 * n.dur_ns)
            THEN 'unrecorded'
        ELSE n.kind
    END AS kind
FROM waiting_call AS n
LEFT JOIN copied_work AS c USING (trace_id, correlation)
ASOF LEFT JOIN work_end AS d ON n.trace_id = d.trace_id AND n.ts_ns + n.dur_ns > d.ts_ns
WHERE
    CASE
        WHEN n.kind = 'copy'
            THEN
                NOT coalesce(c.is_on_device OR c.is_pinned, n.name LIKE '%DtoD%')
                AND coalesce(c.is_pageable OR n.ts_ns + n.dur_ns >= c.ts_ns, TRUE)
        WHEN n.kind = 'sync' AND c.is_on_device THEN n.ts_ns + n.dur_ns >= c.end_ns
        ELSE TRUE
    END
ORDER BY n.trace_id, n.ts_ns, n.event_id
