-- Timing of each request: request_times(since).
-- With `sent`, times start when the request left the client (last attempt); with `arrival`, at its scheduled arrival.
--
-- Kind:   function
-- Params:
--   since  VARCHAR  sent or arrival
-- Columns:
--   run_id VARCHAR, request_id BIGINT
--   is_measured  BOOLEAN  the request is neither warm-up nor profiled
--   is_ok        BOOLEAN  the request is measured and successful
--   client_wait_ns  BIGINT
--   e2e_ns       BIGINT   time from the start to the end, ns
--   ttft_ns      BIGINT
--   tpot_ns      BIGINT   time per output token after the first token (or chunk), ns; NULL if no other token follows

CREATE OR REPLACE MACRO request_times(since) AS TABLE (
    WITH timed AS (
        SELECT
            *,
            if(since = 'arrival', arrival_ns, sent_ns) AS start_ns,
            coalesce(first_token_ns, token_ns[1]) AS first_ns,
            coalesce(token_ns[-1], end_ns) AS last_ns,
            output_token_count - coalesce(token_counts[1], 1) AS later_count
        FROM request
    )

    SELECT
        run_id, request_id,
        NOT is_warmup AND NOT is_profiled AS is_measured,
        NOT is_warmup AND NOT is_profiled AND outcome = 'ok' AS is_ok,
        sent_ns - arrival_ns AS client_wait_ns,
        end_ns - start_ns AS e2e_ns,
        first_ns - start_ns AS ttft_ns,
        if(later_count > 0, round((last_ns - first_ns) / later_count)::BIGINT, NULL) AS tpot_ns
    FROM timed
);
