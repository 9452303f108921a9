-- The mean recorded step of each trace
-- Over its devices and the steps that put work on them, as analysis steps has them. A trace without marked steps has one:
-- the window of each device.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id     INTEGER -> trace  the trace
--   step_count   BIGINT            steps with work; 0 where the window is taken for one
--   recorded_ns  DOUBLE            the step, ns
--   work_ns      DOUBLE            time of it in which a device works, ns; NULL where CPUs do the work

WITH work AS (
    SELECT trace_id, device, step, sum(wall_ns)::BIGINT AS wall_ns
    FROM attributed_events
    WHERE step IS NOT NULL
    GROUP BY trace_id, device, step
)

SELECT
    d.trace_id,
    count(DISTINCT d.step) AS step_count,
    avg(d.span_ns) AS recorded_ns,
    avg(w.wall_ns) FILTER (d.device <> 'cpu') AS work_ns
FROM device_steps AS d
INNER JOIN work AS w USING (trace_id, device, step)
GROUP BY d.trace_id
UNION ALL
SELECT
    d.trace_id,
    0 AS step_count,
    avg(d.window_ns) AS recorded_ns,
    avg(d.busy_ns) FILTER (d.device <> 'cpu') AS work_ns
FROM device_windows AS d
ANTI JOIN device_steps USING (trace_id)
GROUP BY d.trace_id
ORDER BY trace_id
