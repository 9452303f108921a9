-- From when to when did the engine serve at full load, and how fast was it then?
-- The steady state: the longest run of steps in which the number of running requests stays within tolerance_pct of its
-- maximum in the trace. Running are the requests in the batch of a step that decodes; steps that only read prompts are
-- not judged, and belong to it where they lie between two of its steps. From the start of its first step on the CPU to
-- the end of its last. Busy and idle are those of its steps on the device; rates count their tokens over both, because
-- the CPU may run ahead of the device.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   tolerance_pct  DOUBLE = 10  how far below its maximum the number of running requests may be, 0 to 100
-- Columns:
--   rank                 INTEGER  global rank
--   device               VARCHAR  number of the device, or cpu
--   first_step           BIGINT   number of its first step
--   last_step            BIGINT   number of its last step
--   start_ns             BIGINT   start of the first, ns since the first event of the trace
--   dur_ns               BIGINT   to the end of the last, ns
--   trace_pct            DOUBLE   dur_ns of the time from the trace's first step to its last, 0 to 100
--   step_count           BIGINT   steps in it
--   prefill_step_count   BIGINT   of these, steps that only read prompts
--   mixed_step_count     BIGINT   steps that do both
--   decode_step_count    BIGINT   steps that only decode
--   verify_step_count    BIGINT   steps that read what a draft model proposed
--   max_running_count    BIGINT   running requests at most
--   mean_running_count   DOUBLE   running requests in its steps that decode, mean
--   prefill_token_count  BIGINT   tokens of prompts that were read
--   decode_token_count   BIGINT   tokens that decoding put in
--   prefill_tokens_per_s  DOUBLE  prefill_token_count over wall_ns and idle_ns, tokens/s
--   decode_tokens_per_s  DOUBLE   decode_token_count over wall_ns and idle_ns, tokens/s
--   wall_ns              BIGINT   busy time of its steps, ns
--   idle_ns              BIGINT   idle time before work of its steps, ns
--   idle_pct             DOUBLE   idle_ns of wall_ns and idle_ns, 0 to 100
--   reason               VARCHAR  why there is none; NULL if there is one
-- Invariant: (reason IS NULL) = (step_count IS NOT NULL)
-- Invariant: step_count IS NULL OR step_count = prefill_step_count + mixed_step_count + decode_step_count
--            + verify_step_count
-- Invariant: trace_pct IS NULL OR (0 <= trace_pct AND trace_pct <= 100.0000001)

WITH extent AS (
    SELECT trace_id, max(end_ns) - min(ts_ns) AS dur_ns
    FROM serving_step_ranges
    GROUP BY trace_id
),

inside AS (
    SELECT s.*, y.start_ns, y.end_ns - y.start_ns AS steady_ns, y.max_running_count
    FROM serving_step_ranges AS s
    INNER JOIN steady_window('serving_step_ranges', $tolerance_pct) AS y
        ON s.trace_id = y.trace_id AND s.ts_ns >= y.start_ns AND s.ts_ns < y.end_ns
),

summed AS (
    SELECT
        trace_id,
        min(step) AS first_step,
        max(step) AS last_step,
        any_value(start_ns) AS start_ns,
        any_value(steady_ns) AS dur_ns,
        count(*) AS step_count,
        count(*) FILTER (phase = 'prefill') AS prefill_step_count,
        count(*) FILTER (phase = 'mixed') AS mixed_step_count,
        count(*) FILTER (phase = 'decode') AS decode_step_count,
        count(*) FILTER (phase = 'verify') AS verify_step_count,
        any_value(max_running_count) AS max_running_count,
        avg(request_count) FILTER (phase <> 'prefill') AS mean_running_count,
        sum(prefill_token_count)::BIGINT AS prefill_token_count,
        sum(decode_token_count)::BIGINT AS decode_token_count
    FROM inside
    GROUP BY trace_id
),

worked AS (
    SELECT
        w.trace_id, w.device,
        sum(w.wall_ns)::BIGINT AS wall_ns,
        sum(w.idle_ns)::BIGINT AS idle_ns
    FROM serving_step_work AS w
    SEMI JOIN inside AS i ON w.trace_id = i.trace_id AND w.step = i.step
    GROUP BY w.trace_id, w.device
)

SELECT
    w.rank, w.device, s.first_step, s.last_step,
    s.start_ns - t.first_ts_ns AS start_ns,
    s.dur_ns,
    100.0 * s.dur_ns / nullif(e.dur_ns, 0) AS trace_pct,
    s.step_count, s.prefill_step_count, s.mixed_step_count, s.decode_step_count,
    s.verify_step_count,
    s.max_running_count,
    s.mean_running_count,
    s.prefill_token_count,
    s.decode_token_count,
    1e9 * s.prefill_token_count / nullif(k.wall_ns + k.idle_ns, 0) AS prefill_tokens_per_s,
    1e9 * s.decode_token_count / nullif(k.wall_ns + k.idle_ns, 0) AS decode_tokens_per_s,
    CASE WHEN s.step_count IS NOT NULL THEN coalesce(k.wall_ns, 0) END AS wall_ns,
    CASE WHEN s.step_count IS NOT NULL THEN coalesce(k.idle_ns, 0) END AS idle_ns,
    100.0 * k.idle_ns / nullif(k.wall_ns + k.idle_ns, 0) AS idle_pct,
    CASE
        WHEN s.step_count IS NULL
            THEN 'the ranges of the steps do not tell how many requests are in each batch'
    END AS reason
FROM device_windows AS w
INNER JOIN extent AS e USING (trace_id)
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN summed AS s USING (trace_id)
LEFT JOIN worked AS k USING (trace_id, device)
ORDER BY w.rank NULLS LAST, w.trace_id, w.device
