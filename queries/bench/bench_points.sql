-- Benchmark points of one family with the confidence interval of the median: bench_points(wanted).
-- Returns rows of table `benchmark` with all columns. Unusable times are NULL.
--
-- Kind:     function
-- Access:   private
-- Params:
--   wanted  VARCHAR  gemm, memcpy, collective, or launch
-- Columns:
--   median_ns DOUBLE, low_ns DOUBLE, high_ns DOUBLE, run VARCHAR, interval_pct DOUBLE, below_pct DOUBLE
--   above_pct DOUBLE, missing VARCHAR

CREATE OR REPLACE MACRO bench_points(wanted) AS TABLE (
    WITH judged AS (
        SELECT
            b.*,
            r.folder_name AS run,
            b.outcome = 'ok' AND coalesce(b.median_ns > 0, FALSE) AS has_time,
            coalesce(0 < b.low_ns AND b.low_ns <= b.median_ns AND b.median_ns <= b.high_ns, FALSE)
                AS has_interval
        FROM benchmark AS b
        INNER JOIN run AS r ON b.run_id = r.run_id
        WHERE b.family = wanted
    )

    SELECT
        * EXCLUDE (has_time, has_interval) REPLACE (
            if(has_time, median_ns, NULL) AS median_ns,
            if(has_time AND has_interval, low_ns, NULL) AS low_ns,
            if(has_time AND has_interval, high_ns, NULL) AS high_ns
        ),
        if(has_time AND has_interval, 100 * (high_ns - low_ns) / median_ns, NULL) AS interval_pct,
        if(has_time AND has_interval, 100 * (median_ns - low_ns) / median_ns, NULL) AS below_pct,
        if(has_time AND has_interval, 100 * (high_ns - median_ns) / median_ns, NULL) AS above_pct,
        CASE
            WHEN outcome <> 'ok' THEN outcome || coalesce(': ' || reason, '')
            WHEN median_ns IS NULL THEN 'the benchmark record has no time'
            WHEN NOT has_time THEN 'shorter than the clock resolution'
        END AS missing
    FROM judged
);
