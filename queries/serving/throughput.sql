-- How many tokens and requests a second did each serving engine answer?
-- The paper's Figure 6. The interval goes from when the first measured request was sent to the end of the last one that
-- succeeded, ramp-up and tail included; only what succeeded is in the figures. Warm-up is in neither. Of a prompt that
-- went out as text only words are known until the server confirms its tokens: words do not count as tokens.
-- Of an incomplete run, whose engine was lost or which was interrupted, the figures are of the part of the load that was
-- answered before: answered_pct says how much that is.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   run                  VARCHAR  name of the run's folder
--   engine               VARCHAR  serving engine
--   model                VARCHAR  name of the model
--   request_count        BIGINT   measured requests
--   ok_count             BIGINT   of these, succeeded
--   left_out_count       BIGINT   of these, did not
--   prompt_token_count   BIGINT   tokens of the prompts of those that succeeded; NULL if not known of every one
--   output_token_count   BIGINT   tokens of their answers; NULL if not known of every one
--   interval_ns          BIGINT   from the first sent to the last end, ns
--   requests_per_s       DOUBLE   requests that succeeded, per second
--   output_tokens_per_s  DOUBLE   tokens of answers, per second
--   total_tokens_per_s   DOUBLE   tokens of prompts and answers, per second
--   answered_pct         DOUBLE   share of the measured requests that the figures are of, %
--   outcome              VARCHAR  how the run ended: ok, incomplete, oom, failed or unreadable
-- Invariant: answered_pct BETWEEN 0 AND 100
-- Invariant: request_count = ok_count + left_out_count
-- Invariant: total_tokens_per_s IS NULL OR output_tokens_per_s <= total_tokens_per_s

WITH summed AS (
    SELECT
        q.run_id,
        count(*) AS request_count,
        count(*) FILTER (t.is_ok) AS ok_count,
        count(q.prompt_token_count) FILTER (
            t.is_ok AND q.prompt_source IS DISTINCT FROM 'text'
        ) = ok_count AS has_prompts,
        count(q.output_token_count) FILTER (t.is_ok) = ok_count AS has_outputs,
        sum(coalesce(q.prompt_token_count, 0)) FILTER (t.is_ok)::BIGINT AS prompt_sum,
        sum(coalesce(q.output_token_count, 0)) FILTER (t.is_ok)::BIGINT AS output_sum,
        if(has_prompts, coalesce(prompt_sum, 0), NULL) AS prompt_token_count,
        if(has_outputs, coalesce(output_sum, 0), NULL) AS output_token_count,
        max(q.end_ns) FILTER (t.is_ok) - min(q.sent_ns) AS interval_ns
    FROM request AS q
    INNER JOIN request_times('sent') AS t USING (run_id, request_id)
    WHERE t.is_measured
    GROUP BY q.run_id
)

SELECT
    r.folder_name AS run, r.engine, r.model, s.request_count, s.ok_count,
    s.request_count - s.ok_count AS left_out_count,
    s.prompt_token_count, s.output_token_count, s.interval_ns,
    1e9 * s.ok_count / nullif(s.interval_ns, 0) AS requests_per_s,
    1e9 * s.output_token_count / nullif(s.interval_ns, 0) AS output_tokens_per_s,
    1e9 * (s.prompt_token_count + s.output_token_count) / nullif(s.interval_ns, 0)
        AS total_tokens_per_s,
    100.0 * s.ok_count / s.request_count AS answered_pct,
    r.outcome
FROM summed AS s
INNER JOIN run AS r USING (run_id)
ORDER BY r.model, r.engine, r.run_id
