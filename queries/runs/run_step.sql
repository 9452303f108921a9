-- Step time of each run without ranges or the profiler: run_step().
--
-- Kind:   function
-- Access: private
-- Columns:
--   run_id VARCHAR, repeat_count BIGINT, mean_ns DOUBLE, median_ns BIGINT, low_ns BIGINT, high_ns BIGINT

CREATE OR REPLACE MACRO run_step() AS TABLE (
    WITH repeated AS (
        SELECT
            run_id,
            count(*) AS repeat_count,
            avg(list_avg(step_ns)) AS mean_ns,
            list_aggregate(flatten(list(step_ns)), 'quantile_cont', [0.1, 0.5, 0.9]) AS ns
        FROM run_repeat
        GROUP BY run_id
    )

    SELECT
        r.run_id,
        coalesce(p.repeat_count, 0) AS repeat_count,
        coalesce(p.mean_ns, r.plain_step_ns) AS mean_ns,
        -- A manifest without percentiles contains only a mean, which is sensitive to outliers.
        if(
            r.plain_step_low_ns IS NULL,
            coalesce(p.ns[2]::BIGINT, r.plain_step_ns),
            r.plain_step_ns
        ) AS median_ns,
        coalesce(r.plain_step_low_ns, p.ns[1]::BIGINT) AS low_ns,
        coalesce(r.plain_step_high_ns, p.ns[3]::BIGINT) AS high_ns
    FROM run AS r
    LEFT JOIN repeated AS p USING (run_id)
);
