-- Individual latencies of successful measured requests: request_latency(since).
-- One row per request and metric; for itl, one per pair of consecutive tokens or chunks.
--
-- Kind:     function
-- Params:
--   since  VARCHAR  sent or arrival
-- Columns:
--   run_id    VARCHAR
--   metric    VARCHAR  e2e, ttft, tpot, itl, or client_wait, as in analysis latency
--   value_ns  BIGINT   latency, ns; never NULL

CREATE OR REPLACE MACRO request_latency(since) AS TABLE (
    WITH valued AS (
        SELECT
            run_id,
            unnest([
                {metric: 'e2e', value_ns: e2e_ns},
                {metric: 'ttft', value_ns: ttft_ns},
                {metric: 'tpot', value_ns: tpot_ns},
                {metric: 'client_wait', value_ns: client_wait_ns}
            ], recursive := TRUE)
        FROM request_times(since)
        WHERE is_ok
        UNION ALL
        SELECT run_id, 'itl' AS metric, unnest(token_ns[2:]) - unnest(token_ns[:-2]) AS value_ns
        FROM request
        WHERE outcome = 'ok' AND NOT is_warmup AND NOT is_profiled
    )

    SELECT run_id, metric, value_ns
    FROM valued
    WHERE value_ns IS NOT NULL
);
