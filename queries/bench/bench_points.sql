-- Which points did microbenchmarks measure, and how wide is the interval that the median lies in?
-- bench_points(wanted) are the rows of table benchmark of one family, of all runs, with all their columns; the three times
-- below are NULL where they are of no use. What every bench analysis says besides of a point:
--
-- Kind:     function
-- Access:   private
-- Params:
--   wanted  VARCHAR  gemm, memcpy, collective or launch
-- Columns:
--   median_ns     DOUBLE   median time of one call, ns; NULL unless it is more than 0 and the outcome ok
--   low_ns        DOUBLE   lower end of its confidence interval, ns; NULL as well without an interval
--   high_ns       DOUBLE   upper end, ns
--   run           VARCHAR  name of the run's folder
--   interval_pct  DOUBLE   high_ns - low_ns of the median, 0 to 100 and more
--   below_pct     DOUBLE   of that, median_ns - low_ns of the median
--   above_pct     DOUBLE   of that, high_ns - median_ns of the median
--   missing       VARCHAR  why there is no time

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
            WHEN median_ns IS NULL THEN 'the line has no time'
            WHEN NOT has_time THEN 'it took no time that the clock could tell'
        END AS missing
    FROM judged
);
