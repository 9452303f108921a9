-- What is every single latency of the requests that count?
-- request_latency(since) has a row per value of each metric: one per request that succeeded and was measured, of itl
-- one per pair of tokens (or chunks of tokens) that followed each other. Arguments as for request_times.
--
-- Kind:     function
-- Params:
--   since  VARCHAR  sent or arrival
-- Columns:
--   run_id      VARCHAR  as in table run
--   metric      VARCHAR  e2e, ttft, tpot, itl or client_wait
--   value_ns    BIGINT   the latency, ns; never NULL

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
