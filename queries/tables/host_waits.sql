-- When did a thread of the CPU wait, and for what?
-- By the names of runtime and driver calls, ops, ranges and Python functions; see macro host_wait.
--
-- Kind:     table
-- Requires: event_category, host_wait
-- Columns:
--   trace_id  INTEGER  the trace
--   event_id  BIGINT   the call, op or range, as in table event
--   pid       BIGINT   process id
--   tid       BIGINT   thread id
--   ts_ns     BIGINT   start, ns
--   dur_ns    BIGINT   duration, ns
--   kind      VARCHAR  data_loading, allocator, comm_wait, sync (until the device is done) or copy (may wait)
-- Invariant: dur_ns > 0

SELECT
    trace_id,
    event_id,
    pid,
    tid,
    ts_ns,
    dur_ns,
    CASE
        WHEN is_launch_call(category) THEN host_call_wait(name)
        ELSE host_range_wait(category, name)
    END AS kind
FROM event
WHERE
    dur_ns > 0
    AND CASE
        WHEN is_launch_call(category) THEN host_call_wait(name)
        ELSE host_range_wait(category, name)
    END IS NOT NULL
ORDER BY trace_id, ts_ns, event_id
