-- How long did requests take to be answered?
-- e2e: from a request's start to the end of its answer. ttft: to its first token. tpot: from the first to the last
-- token, over the tokens after the first. itl: between tokens that followed each other, one value for each pair (a
-- chunk of several tokens counts as one). client_wait: how long the client held the request back. Only requests that
-- succeeded count; warm-up, and what was sent again to be profiled, never does. Percentiles are nearest-rank: values
-- that were measured, none in between.
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   since  VARCHAR{sent|arrival} = sent  what e2e and ttft count from: when the request was sent, or should have been
-- Columns:
--   run             VARCHAR  name of the run's folder
--   engine          VARCHAR  serving engine
--   metric          VARCHAR  e2e, ttft, tpot, itl or client_wait
--   value_count     BIGINT   values: requests, of itl pairs of tokens
--   mean_ns         DOUBLE   mean, ns
--   p50_ns          BIGINT   median, ns
--   p90_ns          BIGINT   90th percentile, ns
--   p99_ns          BIGINT   99th percentile, ns
--   max_ns          BIGINT   longest, ns
--   ok_count        BIGINT   measured requests that succeeded; of fewer values than these, the rest has no such time
--   left_out_count  BIGINT   measured requests that did not succeed, and are in no figure
--   outcome         VARCHAR  how the run ended; of an incomplete one the figures are of a part of the load
-- Invariant: value_count = 0 OR (p50_ns <= p90_ns AND p90_ns <= p99_ns AND p99_ns <= max_ns)
-- Invariant: metric = 'itl' OR value_count <= ok_count
-- Note: ok_count and left_out_count leave out warm-up; table request has every request

WITH counted AS (
    SELECT
        run_id,
        count(*) FILTER (is_ok) AS ok_count,
        count(*) FILTER (is_measured AND NOT is_ok) AS left_out_count
    FROM request_times($since)
    GROUP BY run_id
),

metric AS (
    SELECT c.*, unnest(['e2e', 'ttft', 'tpot', 'itl', 'client_wait']) AS metric
    FROM counted AS c
),

-- By position in order, which DuckDB sorts on disk if it must: quantile_disc holds all values in memory.
ranked AS (
    SELECT
        run_id, metric, value_ns,
        row_number() OVER (PARTITION BY run_id, metric ORDER BY value_ns) AS position,
        count(*) OVER (PARTITION BY run_id, metric) AS value_count
    FROM request_latency($since)
),

-- The percentile p is the value at the rank ceil(p * value_count / 100).
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
FROM metric AS m
INNER JOIN run AS r USING (run_id)
LEFT JOIN summed AS s USING (run_id, metric)
ORDER BY r.engine, r.run_id, list_position(['e2e', 'ttft', 'tpot', 'itl', 'client_wait'], m.metric)
