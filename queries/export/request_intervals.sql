-- Queueing, prefill, and decode times of each serving request: request_intervals().
-- A request is queued from the time at which it is sent to its first step (if recorded). It is then in prefill until
-- its first token, and then in decode. Times are Unix time on the client's clock.
--
-- Kind:     function
-- Columns:
--   run_id VARCHAR, request_id BIGINT
--   start_unix_ns  BIGINT  time at which the request was sent, Unix ns
--   first_unix_ns  BIGINT  start of the first step of the request, Unix ns; NULL if not recorded
--   token_unix_ns  BIGINT  time of the first token, Unix ns; NULL if none
--   end_unix_ns    BIGINT  time at which the request ended, Unix ns
--   facts          STRUCT  outcome, token counts, and more

CREATE OR REPLACE MACRO request_intervals() AS TABLE (
    WITH first_step AS (
        SELECT r.run_id, r.request_id, min(s.ts_ns + t.base_time_ns) AS at_ns
        FROM (
            SELECT run_id, request_id, min(first_step) AS step
            FROM request_step
            GROUP BY run_id, request_id
        ) AS r
        INNER JOIN trace AS t USING (run_id)
        INNER JOIN serving_step_ranges AS s USING (trace_id, step)
        WHERE t.base_time_ns > 0
        GROUP BY r.run_id, r.request_id
    )

    SELECT
        r.run_id, r.request_id,
        n.load_start_unix_ns + r.sent_ns AS start_unix_ns,
        f.at_ns AS first_unix_ns,
        n.load_start_unix_ns + r.first_token_ns AS token_unix_ns,
        n.load_start_unix_ns + r.end_ns AS end_unix_ns,
        {
            request: r.request_id,
            engine_request: r.engine_request_id,
            is_warmup: r.is_warmup,
            is_profiled: r.is_profiled,
            outcome: r.outcome,
            prompt_token_count: r.prompt_token_count,
            output_token_count: r.output_token_count,
            attempt_count: r.attempt_count
        } AS facts
    FROM request AS r
    INNER JOIN run AS n USING (run_id)
    LEFT JOIN first_step AS f USING (run_id, request_id)
    WHERE r.sent_ns IS NOT NULL AND r.end_ns >= r.sent_ns AND n.load_start_unix_ns IS NOT NULL
);
