-- Mean recorded step time of each trace, over its devices.
-- Without marked steps, the device window counts as one step.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id    INTEGER -> trace
--   step_count  BIGINT  number of steps with device work; 0 if the window is used
--   spanned_count  BIGINT  number of steps from the first to the last with device work
--   recorded_ns  DOUBLE
--   work_ns     DOUBLE  GPU busy time per step, including work outside steps; NULL on cpu
--   other_ns    DOUBLE  part of work_ns outside steps

WITH work AS (
    SELECT trace_id, device, step, sum(wall_ns)::BIGINT AS wall_ns
    FROM attributed_events
    WHERE step IS NOT NULL
    GROUP BY trace_id, device, step
),

numbered AS (
    SELECT trace_id, step, row_number() OVER (PARTITION BY trace_id ORDER BY min(ts_ns)) AS number
    FROM step_ranges
    GROUP BY trace_id, step
)

SELECT
    d.trace_id,
    count(DISTINCT d.step) AS step_count,
    max(n.number) - min(n.number) + 1 AS spanned_count,
    avg(d.span_ns) AS recorded_ns,
    avg(w.wall_ns + d.other_ns) FILTER (d.device <> 'cpu') AS work_ns,
    avg(d.other_ns) AS other_ns
FROM device_steps AS d
INNER JOIN work AS w USING (trace_id, device, step)
INNER JOIN numbered AS n USING (trace_id, step)
GROUP BY d.trace_id
UNION ALL
SELECT
    d.trace_id,
    0 AS step_count,
    1 AS spanned_count,
    avg(d.window_ns) AS recorded_ns,
    avg(d.busy_ns) FILTER (d.device <> 'cpu') AS work_ns,
    0 AS other_ns
FROM device_windows AS d
ANTI JOIN device_steps USING (trace_id)
GROUP BY d.trace_id
ORDER BY trace_id
