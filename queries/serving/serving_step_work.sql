-- Device time of each serving step, per device.
-- A device event belongs to the last step that started before its launch (on cpu: before the op), if that step had not
-- ended. Idle time belongs to the step of the device event that ends it, so the rows of a device add up to the window.
--
-- Kind:     table
-- Input:    serving_step_ranges
-- Columns:
--   trace_id INTEGER -> trace, device VARCHAR -> device_windows
--   step      BIGINT -> serving_step_ranges  step number, as in serving_steps; NULL outside steps
--   kernel_count BIGINT, kernel_ns BIGINT, wall_ns BIGINT
--   idle_ns   BIGINT                         idle time before device events of the step, ns
--   start_ns  BIGINT                         start of the first device event of the step, ns
--   end_ns    BIGINT                         end of the last device event of the step, ns
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND 0 <= idle_ns

WITH work AS (
    SELECT
        d.trace_id, d.device, d.piece, d.ts_ns, d.end_ns, d.dur_ns, d.wall_ns,
        l.ts_ns AS launch_ts_ns,
        gap_before_ns((d.trace_id, d.device), d.ts_ns, d.end_ns, (d.event_id, d.piece)) AS gap_ns
    FROM attributed_events AS d
    LEFT JOIN launch AS l USING (trace_id, launch_id)
    WHERE d.trace_id IN (SELECT trace_id FROM serving_step_ranges)
),

placed AS (
    SELECT
        w.*,
        CASE WHEN w.launch_ts_ns < s.end_ns THEN s.step END AS step
    FROM work AS w
    ASOF LEFT JOIN serving_step_ranges AS s
        ON w.trace_id = s.trace_id AND w.launch_ts_ns >= s.ts_ns
)

SELECT
    trace_id, device, step,
    count(*) FILTER (piece = 0) AS kernel_count,
    sum(dur_ns)::BIGINT AS kernel_ns,
    sum(wall_ns)::BIGINT AS wall_ns,
    coalesce(sum(gap_ns) FILTER (gap_ns > 0), 0)::BIGINT AS idle_ns,
    min(ts_ns) AS start_ns,
    max(end_ns) AS end_ns
FROM placed
GROUP BY trace_id, device, step
