-- When did each request of serving wait, when was its prompt read, and when did its answer come?
-- A row of request_intervals() is a request. It is queued from when it was sent to the start of the first step that
-- served it, as far as that step is in a trace; then its prompt is read until its first token comes; then it is decoded.
-- Times are ns since the epoch, by the clock of the client.
--
-- Kind:     function
-- Columns:
--   run_id           VARCHAR  the run
--   request_id       BIGINT   the request
--   start_unix_ns    BIGINT   when it was sent, ns since the epoch
--   first_unix_ns    BIGINT   when its first step began; NULL if no trace has it
--   token_unix_ns    BIGINT   when its first token came; NULL if none did
--   end_unix_ns      BIGINT   when it ended
--   facts            STRUCT   what else is known, by name: outcome, counts of tokens

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
