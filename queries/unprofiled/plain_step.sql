-- What does a step of the run take without the profiler, where somebody measured it?
-- The median of the steps that the run's manifest has, or its own figure. Where a step is given (--plain-step), that is
-- the row.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Requires: run, run_repeat, trace
-- Columns:
--   plain_ns  BIGINT  the step, ns
--   low_ns    BIGINT  the tenth percentile of the steps, ns; NULL where only one figure is known
--   high_ns   BIGINT  the ninetieth, ns
--   source    VARCHAR  given or measured

WITH step AS (
    SELECT run_id, unnest(step_ns) AS step_ns
    FROM run_repeat
),

repeated AS (
    SELECT
        run_id,
        quantile_cont(step_ns, [0.1, 0.5, 0.9]) AS ns
    FROM step
    GROUP BY run_id
),

measured AS (
    SELECT
        -- Without its percentiles the figure of a manifest is a mean, which outliers move.
        if(r.plain_step_low_ns IS NULL, coalesce(p.ns[2]::BIGINT, r.plain_step_ns), r.plain_step_ns)
            AS plain_ns,
        coalesce(r.plain_step_low_ns, p.ns[1]::BIGINT) AS low_ns,
        coalesce(r.plain_step_high_ns, p.ns[3]::BIGINT) AS high_ns,
        'measured' AS source
    FROM run AS r
    LEFT JOIN repeated AS p USING (run_id)
    SEMI JOIN trace AS t ON r.run_id = t.run_id
    WHERE plain_ns > 0
    QUALIFY count(*) OVER () = 1
)

SELECT plain_ns, low_ns, high_ns, source
FROM measured
