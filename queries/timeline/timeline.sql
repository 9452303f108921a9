-- Compute, exposed, and idle time of each device window.
-- Communication is exposed while nothing is computed. Copies are exposed while nothing is computed or communicated.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR, window_ns BIGINT, compute_ns BIGINT, exposed_comm_ns BIGINT
--   exposed_memcpy_ns BIGINT
--   idle_ns              BIGINT  window_ns - busy_ns, ns
--   busy_ns              BIGINT
--   comm_ns              BIGINT  union of communication, ns
--   memcpy_ns            BIGINT  union of copies, ns
--   overlapped_comm_pct  DOUBLE  share of comm_ns with concurrent compute, 0 to 100
--   event_count          BIGINT
--   compute_pct          DOUBLE  share of the window, 0 to 100
--   exposed_comm_pct     DOUBLE  share of the window, 0 to 100
--   exposed_memcpy_pct   DOUBLE  share of the window, 0 to 100
--   idle_pct             DOUBLE  share of the window, 0 to 100
-- Keep:     rank, device, window_ns, compute_ns, exposed_comm_ns, exposed_memcpy_ns, idle_ns, idle_pct
-- View:
--   chart  form=bars title="Device time breakdown" y=where x_of=window_ns axis="time of the device's window"
--          parts=compute_ns,exposed_comm_ns,exposed_memcpy_ns,idle_ns
--          tip=where,window_ns,compute_ns,exposed_comm_ns,exposed_memcpy_ns,idle_ns,event_count
-- Invariant: compute_ns + exposed_comm_ns + exposed_memcpy_ns + idle_ns = window_ns
-- Invariant: compute_ns + exposed_comm_ns + exposed_memcpy_ns = busy_ns
-- Invariant: exposed_comm_ns <= comm_ns AND exposed_memcpy_ns <= memcpy_ns

WITH kind_time AS (
    SELECT
        trace_id, device,
        coalesce(sum(wall_ns) FILTER (kind = 'compute'), 0)::BIGINT AS compute_ns,
        coalesce(sum(wall_ns) FILTER (kind = 'comm'), 0)::BIGINT AS exposed_comm_ns,
        coalesce(sum(wall_ns) FILTER (kind = 'memcpy'), 0)::BIGINT AS exposed_memcpy_ns,
        coalesce(sum(kind_wall_ns) FILTER (kind = 'comm'), 0)::BIGINT AS comm_ns,
        coalesce(sum(kind_wall_ns) FILTER (kind = 'memcpy'), 0)::BIGINT AS memcpy_ns
    FROM device_events
    GROUP BY trace_id, device
)

SELECT
    w.rank, w.device, w.window_ns, k.compute_ns, k.exposed_comm_ns, k.exposed_memcpy_ns,
    w.window_ns - w.busy_ns AS idle_ns,
    w.busy_ns, k.comm_ns, k.memcpy_ns,
    100.0 * (k.comm_ns - k.exposed_comm_ns) / nullif(k.comm_ns, 0) AS overlapped_comm_pct,
    w.event_count,
    100.0 * k.compute_ns / nullif(w.window_ns, 0) AS compute_pct,
    100.0 * k.exposed_comm_ns / nullif(w.window_ns, 0) AS exposed_comm_pct,
    100.0 * k.exposed_memcpy_ns / nullif(w.window_ns, 0) AS exposed_memcpy_pct,
    100.0 * (w.window_ns - w.busy_ns) / nullif(w.window_ns, 0) AS idle_pct
FROM device_windows AS w
INNER JOIN kind_time AS k USING (trace_id, device)
ORDER BY w.rank NULLS LAST, w.trace_id, w.device
