-- Slowest requests with their latencies.
-- Sorted by the time from start to end. Failed requests are included.
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   limit    BIGINT = 20                                       number of rows per run; 0 for all
--   outcome  VARCHAR = NULL                                    only requests with this outcome
--   kind     VARCHAR{measured|warmup|profiled|all} = measured  kind of requests
--   since    VARCHAR{sent|arrival} = sent                      start of e2e and ttft
-- Columns:
--   run VARCHAR, request_id BIGINT
--   outcome     VARCHAR  outcome of the request
--   e2e_ns      BIGINT   time from the start to the end, ns
--   ttft_ns BIGINT, tpot_ns BIGINT
--   max_itl_ns  BIGINT   longest time between two tokens, ns
--   client_wait_ns BIGINT, prompt_token_count BIGINT, output_token_count BIGINT
--   sent_ns     BIGINT   time at which the request was sent, ns since the start of the load
--   step_count  BIGINT   number of engine steps that served the request; NULL if unknown
--   reason      VARCHAR  why the outcome is not ok
-- View:
--   browse  key=0 menu="serving requests" title="Serving requests, slowest first" ask=limit:0,kind:all
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
