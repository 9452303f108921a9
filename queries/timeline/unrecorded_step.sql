-- Steps in which the work of some kernel launches was not recorded.
--
-- Kind:     table
-- Input:    launch_call WHERE is_missing AND is_kernel
-- Columns:
--   trace_id INTEGER -> trace, step BIGINT -> step_ranges
--   launch_count   BIGINT   number of kernel and graph launches
--   missing_count  BIGINT   number of launches without recorded work
--   has_work       BOOLEAN  at least some work of the step was recorded

WITH launched AS (
    SELECT
        c.trace_id, s.step,
        count(*) AS launch_count,
        count_if(c.is_missing)::BIGINT AS missing_count
    FROM launch_call AS c
    ASOF INNER JOIN step_ranges AS s ON c.trace_id = s.trace_id AND c.ts_ns >= s.ts_ns
    WHERE c.is_kernel AND c.ts_ns < s.end_ns
    GROUP BY c.trace_id, s.step
)

SELECT
    *,
    (trace_id, step) IN (
        SELECT (trace_id, step)
        FROM launch_link
        WHERE step IS NOT NULL
    ) AS has_work
FROM launched
WHERE missing_count > 0
ORDER BY trace_id, step
