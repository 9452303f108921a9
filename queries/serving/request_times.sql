-- How long did each request wait and run?
-- request_times(since) takes what a request's time counts from: sent, when it left the client (its last attempt), or
-- arrival, when the schedule wanted it sent. The two differ where the client holds a request back, and where it is late.
--
-- Kind:   function
-- Params:
--   since  VARCHAR  sent or arrival
-- Columns:
--   run_id          VARCHAR  as in table run
--   request_id      BIGINT   as in table request
--   is_measured     BOOLEAN  neither warm-up nor of the load that was profiled
--   is_ok           BOOLEAN  measured, and all of its answer came
--   client_wait_ns  BIGINT   from when the schedule wanted it sent to when it was sent, ns
--   e2e_ns          BIGINT   from its start to its end, ns
--   ttft_ns         BIGINT   from its start to its first token, ns
--   tpot_ns         BIGINT   from its first to its last token, over the tokens after the first (behind the first
--                            chunk, where tokens come in chunks), ns; NULL without such

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
