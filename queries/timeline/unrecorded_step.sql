-- Which steps launched kernels that are not in the file?
--
-- Kind:     table
-- Input:    launch_call WHERE is_missing AND is_kernel
-- Columns:
--   trace_id       INTEGER -> trace       the trace
--   step           BIGINT -> step_ranges  number of the step
--   launch_count   BIGINT                 calls in it that launch kernels or graphs
--   missing_count  BIGINT                 of these, without their work
--   has_work       BOOLEAN                work of it is in the file

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
