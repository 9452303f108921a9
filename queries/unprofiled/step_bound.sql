-- Graph nodes at which the first step starts and each step ends.
-- A step ends with its last work. The first step starts when its range has started on the host and the device has
-- finished earlier work. Without marked steps, the window counts as one step. If a bound has several nodes, the latest
-- applies.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, node BIGINT
--   bound  INTEGER  0: start of the first step; 1: end of the first step; 2: end of a later step

WITH work AS (
    SELECT trace_id, step, device, span_id, start_ns, end_ns
    FROM graph_span
    WHERE kind = 'work'
    QUALIFY (device <> 'cpu') = bool_or(device <> 'cpu') OVER (PARTITION BY trace_id)
),

in_step AS (
    SELECT *
    FROM work
    WHERE step IS NOT NULL
),

first_step AS (
    SELECT trace_id, arg_min(step, start_ns) AS step, min(start_ns) AS start_ns
    FROM in_step
    GROUP BY trace_id
)

-- If the thread of the range launches nothing, the step starts with its first work.
SELECT
    trace_id, arg_min(s.span_id, (s.kind = 'work', s.start_ns, s.span_id)) * 2 AS node, 0 AS bound
FROM graph_span AS s
SEMI JOIN first_step USING (trace_id, step)
WHERE (s.kind = 'mark' AND s.name = 'step start') OR s.span_id IN (SELECT span_id FROM in_step)
GROUP BY trace_id
UNION ALL
SELECT w.trace_id, arg_max(w.span_id, (w.end_ns, w.span_id)) * 2 + 1 AS node, 0 AS bound
FROM work AS w
INNER JOIN first_step AS f USING (trace_id)
WHERE w.step IS NULL AND w.start_ns < f.start_ns
GROUP BY w.trace_id, w.device
UNION ALL
SELECT w.trace_id, w.span_id * 2 + 1 AS node, if(w.step = f.step, 1, 2) AS bound
FROM in_step AS w
INNER JOIN first_step AS f USING (trace_id)
UNION ALL
SELECT trace_id, arg_min(span_id, (start_ns, span_id)) * 2 AS node, 0 AS bound
FROM work
ANTI JOIN in_step USING (trace_id)
GROUP BY trace_id
UNION ALL
SELECT trace_id, span_id * 2 + 1 AS node, 1 AS bound
FROM work
ANTI JOIN in_step USING (trace_id)
ORDER BY trace_id, bound, node
