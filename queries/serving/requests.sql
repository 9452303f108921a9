-- Which requests took longest, and where did their time go?
-- The slowest first, by the time from when they were sent to their end, however that was. Times of single requests are
-- as in analysis latency.
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   limit    BIGINT = 20  rows per run; 0 for all
--   outcome  VARCHAR = NULL  only requests that ended like this
--   kind     VARCHAR{measured|warmup|profiled|all} = measured  which requests
--   since    VARCHAR{sent|arrival} = sent  what e2e and ttft count from
-- Columns:
--   run                 VARCHAR  name of the run's folder
--   request_id          BIGINT   number of the request
--   outcome             VARCHAR  how it ended
--   e2e_ns              BIGINT   from its start to its end, ns
--   ttft_ns             BIGINT   from its start to its first token, ns
--   tpot_ns             BIGINT   from its first to its last token, over the tokens after the first, ns
--   max_itl_ns          BIGINT   longest time between two tokens, ns
--   client_wait_ns      BIGINT   how long the client held it back, ns
--   prompt_token_count  BIGINT   tokens of the prompt
--   output_token_count  BIGINT   tokens of the answer
--   sent_ns             BIGINT   when it was sent, ns since the start of the load
--   step_count          BIGINT   steps of the engine that served it, where they are known
--   reason              VARCHAR  why the outcome is not ok
-- View:
--   browse  key=0 menu="requests of serving" title="Requests of serving, those that took longest first" ask=limit:0,kind:all
--           columns=e2e_ns,ttft_ns,tpot_ns,max_itl_ns,request_id,outcome,step_count,prompt_token_count,output_token_count,sent_ns,run,reason

WITH gap AS (
    SELECT run_id, request_id, unnest(token_ns[2:]) - unnest(token_ns[:-2]) AS gap_ns
    FROM request
),

longest_gap AS (
    SELECT run_id, request_id, max(gap_ns) AS max_itl_ns
    FROM gap
    GROUP BY run_id, request_id
),

step AS (
    SELECT run_id, request_id, sum(last_step - first_step + 1)::BIGINT AS step_count
    FROM request_step
    GROUP BY run_id, request_id
)

SELECT
    r.folder_name AS run, q.request_id, q.outcome, t.e2e_ns, t.ttft_ns, t.tpot_ns, g.max_itl_ns,
    t.client_wait_ns, q.prompt_token_count, q.output_token_count, q.sent_ns, s.step_count, q.reason
FROM request AS q
INNER JOIN run AS r ON q.run_id = r.run_id
INNER JOIN request_times($since) AS t ON q.run_id = t.run_id AND q.request_id = t.request_id
LEFT JOIN longest_gap AS g ON q.run_id = g.run_id AND q.request_id = g.request_id
LEFT JOIN step AS s ON q.run_id = s.run_id AND q.request_id = s.request_id
WHERE
    ($outcome IS NULL OR q.outcome = $outcome)
    AND CASE $kind
        WHEN 'measured' THEN t.is_measured
        WHEN 'warmup' THEN q.is_warmup
        WHEN 'profiled' THEN q.is_profiled
        ELSE TRUE
    END
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY q.run_id ORDER BY t.e2e_ns DESC NULLS LAST, q.request_id
    ) <= $limit
ORDER BY r.run_id, t.e2e_ns DESC NULLS LAST, q.request_id
