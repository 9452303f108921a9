-- Latency CDF of requests, per run.
-- Reproduces Figures 7 to 10 of arXiv 2311.03687. `latency` defines the metrics.
--
-- Kind:     analysis
-- Scope:    runs
-- Family:   latency per percentile
-- Params:
--   metric  VARCHAR{e2e|ttft|tpot|itl|client_wait|all} = e2e  latency metric
--   points  BIGINT = 100                                      number of points per curve, evenly spaced in percent; 0 for all values
--   since   VARCHAR{sent|arrival} = sent                      start of e2e and ttft
-- Columns:
--   run VARCHAR, engine VARCHAR, metric VARCHAR
--   value_ns          BIGINT   latency, ns
--   cumulative_count  BIGINT   number of values up to value_ns
--   cumulative_pct    DOUBLE   cumulative_count as a share of all values, 0 to 100
--   outcome           VARCHAR  outcome of the run; if incomplete, the latencies cover only a part of the load
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

-- Values at ranks ceil(k * value_count / points), for k from 1 to points.
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
