-- Queueing, prefill, and decode of the slowest requests.
-- Requests are linked to the engine steps that served them (`request_step`). Prefill steps started before the first
-- token of the request, and decode steps after it. The time of a step counts in full for each request of its batch.
-- Only recorded steps count (traced_step_count). Traces without a base time have no queue_ns. Excludes warm-up
-- requests.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit    BIGINT = 20    number of requests per run and device, slowest first; 0 for all
--   request  BIGINT = NULL  only this request
-- Columns:
--   rank INTEGER, device VARCHAR, run VARCHAR, request_id BIGINT
--   is_profiled         BOOLEAN  the request is part of the profiled load
--   outcome             VARCHAR  ok, or the kind of failure
--   prompt_token_count BIGINT, output_token_count BIGINT, e2e_ns BIGINT, ttft_ns BIGINT
--   queue_ns            BIGINT   time from the sending of the request to its first step, ns; NULL if not recorded
--   step_count          BIGINT   number of steps that served the request
--   traced_step_count   BIGINT   number of recorded steps
--   prefill_step_count  BIGINT   number of recorded prefill steps
--   prefill_ns          BIGINT   sum of durations of prefill steps, ns
--   decode_step_count   BIGINT   number of recorded decode steps
--   decode_step_ns      DOUBLE   mean duration of decode steps, ns
--   longest_step        BIGINT   number of the longest recorded step
--   longest_step_ns     BIGINT   duration of the longest step, ns
--   wall_ns             BIGINT   busy time of the device in recorded steps of the request, ns
--   idle_ns             BIGINT   idle time before work in recorded steps of the request, ns
--   idle_pct            DOUBLE   idle_ns as a share of wall_ns and idle_ns, 0 to 100
-- Invariant: traced_step_count = prefill_step_count + decode_step_count AND traced_step_count <= step_count
-- Invariant: wall_ns >= 0 AND idle_ns >= 0
-- Invariant: idle_pct IS NULL OR (0 <= idle_pct AND idle_pct <= 100.0000001)
-- Empty: request: the run has no requests
-- Empty: request_step: the requests of the run do not name the steps of the engine that served them
-- Empty: no step that served the requests is marked in the trace (tk/step)

WITH served AS (
    SELECT
        r.run_id, r.request_id, n.folder_name, r.is_profiled, r.outcome, r.prompt_token_count,
        r.output_token_count,
        r.sent_ns + n.load_start_unix_ns AS sent_unix_ns,
        r.first_token_ns + n.load_start_unix_ns AS first_token_unix_ns,
        t.e2e_ns, t.ttft_ns
    FROM request AS r
    INNER JOIN run AS n USING (run_id)
    INNER JOIN request_times('sent') AS t USING (run_id, request_id)
    WHERE NOT r.is_warmup AND ($request IS NULL OR r.request_id = $request)
),

span AS (
    SELECT
        run_id, request_id, first_step, last_step,
        min(first_step) OVER requests AS very_first_step,
        sum(last_step - first_step + 1) OVER requests AS step_count
    FROM request_step
    WINDOW requests AS (PARTITION BY run_id, request_id)
),

stepped AS (
    SELECT
        t.run_id, p.request_id, p.step_count, t.trace_id, s.step, s.dur_ns,
        s.ts_ns + nullif(t.base_time_ns, 0) AS start_unix_ns,
        s.step = p.very_first_step AS is_first
    FROM trace AS t
    INNER JOIN span AS p USING (run_id)
    INNER JOIN serving_step_ranges AS s
        ON t.trace_id = s.trace_id AND s.step BETWEEN p.first_step AND p.last_step
    WHERE s.source = 'tk'
),

judged AS (
    SELECT
        s.*,
        coalesce(s.start_unix_ns < r.first_token_unix_ns, s.is_first) AS is_prefill,
        CASE WHEN s.is_first THEN s.start_unix_ns - r.sent_unix_ns END AS queue_ns
    FROM stepped AS s
    INNER JOIN served AS r USING (run_id, request_id)
),

summed AS (
    SELECT
        d.trace_id, d.rank, d.device, j.run_id, j.request_id,
        any_value(j.step_count)::BIGINT AS step_count,
        count(*) AS traced_step_count,
        max(j.queue_ns) AS queue_ns,
        count(*) FILTER (j.is_prefill) AS prefill_step_count,
        coalesce(sum(j.dur_ns) FILTER (j.is_prefill), 0)::BIGINT AS prefill_ns,
        count(*) FILTER (NOT j.is_prefill) AS decode_step_count,
        avg(j.dur_ns) FILTER (NOT j.is_prefill) AS decode_step_ns,
        arg_max(j.step, j.dur_ns) AS longest_step,
        max(j.dur_ns) AS longest_step_ns,
        coalesce(sum(w.wall_ns), 0)::BIGINT AS wall_ns,
        coalesce(sum(w.idle_ns), 0)::BIGINT AS idle_ns
    FROM judged AS j
    INNER JOIN device_windows AS d USING (trace_id)
    LEFT JOIN serving_step_work AS w USING (trace_id, device, step)
    GROUP BY d.trace_id, d.rank, d.device, j.run_id, j.request_id
)

SELECT
    s.rank, s.device, r.folder_name AS run, s.request_id, r.is_profiled, r.outcome,
    r.prompt_token_count, r.output_token_count, r.e2e_ns, r.ttft_ns, s.queue_ns, s.step_count,
    s.traced_step_count, s.prefill_step_count, s.prefill_ns, s.decode_step_count, s.decode_step_ns,
    s.longest_step, s.longest_step_ns, s.wall_ns, s.idle_ns,
    100.0 * s.idle_ns / nullif(s.wall_ns + s.idle_ns, 0) AS idle_pct
FROM summed AS s
INNER JOIN served AS r USING (run_id, request_id)
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY s.trace_id, s.device ORDER BY r.e2e_ns DESC NULLS LAST, s.request_id
    ) <= $limit
ORDER BY s.rank NULLS LAST, s.trace_id, s.device, r.e2e_ns DESC NULLS LAST, s.request_id
