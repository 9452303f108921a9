-- Calls that wait for the GPU between two launches of a step and prevent a CUDA graph of the complete step.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> event, step BIGINT

WITH launched AS (
    SELECT l.trace_id, r.step, min(l.ts_ns) AS first_ns, max(l.ts_ns) AS last_ns
    FROM launch AS l
    ASOF INNER JOIN step_ranges AS r ON l.trace_id = r.trace_id AND l.ts_ns >= r.ts_ns
    WHERE l.ts_ns < r.end_ns AND NOT regexp_matches(l.name, '(?i)mem(cpy|set)')
    GROUP BY l.trace_id, r.step
)

SELECT w.trace_id, w.event_id, l.step
FROM host_waits AS w
INNER JOIN event AS e USING (trace_id, event_id)
ASOF INNER JOIN launched AS l ON w.trace_id = l.trace_id AND w.ts_ns > l.first_ns
WHERE
    w.ts_ns + w.dur_ns <= l.last_ns
    AND w.kind IN ('sync', 'copy')
    AND is_launch_call(e.category)
ORDER BY w.trace_id, w.event_id
