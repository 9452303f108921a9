-- Tokens and requests per second of each serving run.
-- Reproduces Figure 6 of arXiv 2311.03687. The interval lasts from the start of the first measured request to the end
-- of the last successful one. It includes ramp-up and tail, but no warm-up. Only successful requests count. Prompts
-- sent as text have no token count unless the server reports it. For incomplete runs, answered_pct is the share of the
-- load that was answered.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   run VARCHAR, engine VARCHAR, model VARCHAR
--   request_count        BIGINT   number of measured requests
--   ok_count             BIGINT   number of successful requests
--   left_out_count       BIGINT   number of failed requests
--   prompt_token_count   BIGINT   prompt tokens of successful requests; NULL if a count is unknown
--   output_token_count   BIGINT   output tokens of successful requests; NULL if a count is unknown
--   interval_ns          BIGINT   time from the start of the first request to the end of the last successful one, ns
--   requests_per_s       DOUBLE   successful requests per second
--   output_tokens_per_s  DOUBLE   output tokens per second
--   total_tokens_per_s   DOUBLE   prompt and output tokens per second
--   answered_pct         DOUBLE   share of measured requests that succeeded, 0 to 100
--   outcome              VARCHAR  outcome of the run: ok, incomplete, oom, failed, or unreadable
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
