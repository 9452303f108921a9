-- Latency percentiles of requests by metric, per run.
-- e2e: time from the start of the request to the end of the answer. ttft: time to first token. tpot: time per output
-- token after the first. itl: time between consecutive tokens (or chunks). client_wait: time for which the client
-- delayed the request. Only successful measured requests count, no warm-up or profiled ones. Percentiles: nearest rank.
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   since  VARCHAR{sent|arrival} = sent  start of e2e and ttft: when the request was sent, or its scheduled arrival
-- Columns:
--   run VARCHAR, engine VARCHAR, metric VARCHAR
--   value_count     BIGINT   number of values: requests, or for itl, pairs of consecutive tokens
--   mean_ns         DOUBLE   mean, ns
--   p50_ns          BIGINT   median, ns
--   p90_ns          BIGINT   90th percentile, ns
--   p99_ns          BIGINT   99th percentile, ns
--   max_ns          BIGINT   maximum, ns
--   ok_count        BIGINT   number of successful measured requests
--   left_out_count  BIGINT   number of failed measured requests, excluded from all percentiles
--   outcome         VARCHAR  outcome of the run; if incomplete, the latencies cover only a part of the load
-- Invariant: value_count = 0 OR (p50_ns <= p90_ns AND p90_ns <= p99_ns AND p99_ns <= max_ns)
-- Invariant: metric = 'itl' OR value_count <= ok_count

WITH counted AS (
    SELECT
        run_id,
        unnest(['e2e', 'ttft', 'tpot', 'itl', 'client_wait']) AS metric,
        count(*) FILTER (is_ok) AS ok_count,
        count(*) FILTER (is_measured AND NOT is_ok) AS left_out_count
    FROM request_times($since)
    GROUP BY run_id
),

-- Select percentiles by position in sorted order, because DuckDB can sort on disk. quantile_disc
-- keeps all values in memory.
ranked AS (
    SELECT
        run_id, metric, value_ns,
        row_number() OVER (PARTITION BY run_id, metric ORDER BY value_ns) AS position,
        count(*) OVER (PARTITION BY run_id, metric) AS value_count
    FROM request_latency($since)
),

-- Nearest rank: ceil(p * value_count / 100).
summed AS (
    SELECT
        run_id, metric,
        count(*) AS value_count,
        sum(value_ns) / count(*) AS mean_ns,
        max(value_ns) FILTER (position = (50 * value_count + 99) // 100) AS p50_ns,
        max(value_ns) FILTER (position = (90 * value_count + 99) // 100) AS p90_ns,
        max(value_ns) FILTER (position = (99 * value_count + 99) // 100) AS p99_ns,
        max(value_ns) AS max_ns
    FROM ranked
    GROUP BY run_id, metric
)

SELECT
    r.folder_name AS run, r.engine, m.metric,
    coalesce(s.value_count, 0) AS value_count,
    s.mean_ns, s.p50_ns, s.p90_ns, s.p99_ns, s.max_ns, m.ok_count, m.left_out_count, r.outcome
FROM counted AS m
INNER JOIN run AS r USING (run_id)
LEFT JOIN summed AS s USING (run_id, metric)
ORDER BY r.engine, r.run_id, list_position(['e2e', 'ttft', 'tpot', 'itl', 'client_wait'], m.metric)
