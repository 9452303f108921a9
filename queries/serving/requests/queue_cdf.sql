-- CDF of the queueing time of requests, per run.
-- The queueing time lasts from the time at which a request is sent to the start of its first engine step. Requests
-- count if that step was recorded, including profiled requests; warm-up requests are excluded. Client and trace use
-- separate clocks, so values may be slightly negative.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   request_steps per percentile
-- Params:
--   points  BIGINT = 100  number of points per curve, evenly spaced in percent; 0 for all values
-- Columns:
--   run VARCHAR, engine VARCHAR
--   value_ns          BIGINT  queueing time, ns
--   cumulative_count  BIGINT  number of requests that waited at most value_ns
--   cumulative_pct    DOUBLE  cumulative_count as a share of request_count, 0 to 100
--   request_count     BIGINT  number of counted requests
--   left_out_count    BIGINT  number of requests whose first step was not recorded
-- View:
--   page  lines=run
-- Invariant: 0 < cumulative_pct AND cumulative_pct <= 100
-- Invariant: 1 <= cumulative_count AND cumulative_count <= request_count

-- All ranks of an engine run the same steps, so use the first trace with steps.
WITH reference_trace AS (
    SELECT t.run_id, min(t.trace_id) AS trace_id
    FROM trace AS t
    INNER JOIN serving_step_ranges AS s ON t.trace_id = s.trace_id
    WHERE s.source = 'tk' AND t.base_time_ns > 0
    GROUP BY t.run_id
),

first_step AS (
    SELECT run_id, request_id, min(first_step) AS step
    FROM request_step
    GROUP BY run_id, request_id
),

queued AS (
    SELECT r.run_id, s.ts_ns + t.base_time_ns - n.load_start_unix_ns - r.sent_ns AS value_ns
    FROM request AS r
    INNER JOIN run AS n USING (run_id)
    LEFT JOIN first_step AS f USING (run_id, request_id)
    LEFT JOIN reference_trace AS g USING (run_id)
    LEFT JOIN trace AS t ON g.trace_id = t.trace_id
    LEFT JOIN serving_step_ranges AS s ON g.trace_id = s.trace_id AND f.step = s.step
    WHERE NOT r.is_warmup
),

ranked AS (
    SELECT
        run_id, value_ns,
        row_number() OVER (PARTITION BY run_id ORDER BY value_ns) AS position,
        count(value_ns) OVER (PARTITION BY run_id) AS request_count,
        count(*) OVER (PARTITION BY run_id) - request_count AS left_out_count,
        count(*) OVER (PARTITION BY run_id ORDER BY value_ns) AS cumulative_count
    FROM queued
    QUALIFY value_ns IS NOT NULL
),

-- Values at ranks ceil(k * request_count / points), for k from 1 to points.
picked AS (
    SELECT DISTINCT run_id, value_ns, cumulative_count, request_count, left_out_count
    FROM ranked
    WHERE
        $points <= 0
        OR position * $points // request_count > (position - 1) * $points // request_count
)

SELECT
    n.folder_name AS run, n.engine, p.value_ns, p.cumulative_count,
    100.0 * p.cumulative_count / p.request_count AS cumulative_pct,
    p.request_count, p.left_out_count
FROM picked AS p
INNER JOIN run AS n USING (run_id)
ORDER BY n.engine, n.run_id, p.value_ns
