-- What share of the requests was answered within which time?
-- The paper's Figures 7 to 10: points of the empirical distribution function of a latency, with metrics as in analysis
-- latency. A point says that cumulative_count values, and no fewer, are at most value_ns.
--
-- Kind:     analysis
-- Scope:    runs
-- Family:   latency
-- Params:
--   metric  VARCHAR{e2e|ttft|tpot|itl|client_wait|all} = e2e  which latency
--   points  BIGINT = 100  points of a curve, evenly spaced in percent; 0 for every value
--   since   VARCHAR{sent|arrival} = sent  what e2e and ttft count from
-- Columns:
--   run               VARCHAR  name of the run's folder
--   engine            VARCHAR  serving engine
--   metric            VARCHAR  e2e, ttft, tpot, itl or client_wait
--   value_ns          BIGINT   the latency, ns
--   cumulative_count  BIGINT   values that are at most this
--   cumulative_pct    DOUBLE   their share of all values, 0 to 100
--   outcome           VARCHAR  how the run ended; of an incomplete one the values are of a part of the load
-- View:
--   page  rows=5000 lines=run ask=metric:all
-- Invariant: 0 < cumulative_pct AND cumulative_pct <= 100
-- Invariant: cumulative_count >= 1

WITH ranked AS (
    SELECT
        run_id, metric, value_ns,
        row_number() OVER (PARTITION BY run_id, metric ORDER BY value_ns) AS position,
        count(*) OVER (PARTITION BY run_id, metric) AS value_count,
        count(*) OVER (PARTITION BY run_id, metric ORDER BY value_ns) AS cumulative_count
    FROM request_latency($since)
    WHERE $metric IN ('all', metric)
),

-- The values at the ranks ceil(k * value_count / points), for k from 1 to points.
picked AS (
    SELECT DISTINCT run_id, metric, value_ns, cumulative_count, value_count
    FROM ranked
    WHERE
        $points <= 0
        OR position * $points // value_count > (position - 1) * $points // value_count
)

SELECT
    r.folder_name AS run, r.engine, p.metric, p.value_ns, p.cumulative_count,
    100.0 * p.cumulative_count / p.value_count AS cumulative_pct,
    r.outcome
FROM picked AS p
INNER JOIN run AS r USING (run_id)
ORDER BY
    r.engine, r.run_id,
    list_position(['e2e', 'ttft', 'tpot', 'itl', 'client_wait'], p.metric),
    p.value_ns
