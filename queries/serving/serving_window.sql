-- Steady state of a serving engine under full load, per device.
-- The steady state is the longest sequence of steps in which the number of running requests stays within tolerance_pct
-- of its maximum. Only steps that decode have running requests; prefill-only steps inside the sequence belong to it.
-- Rates divide tokens by the device time of these steps (busy and idle), because the host may run ahead.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   tolerance_pct  DOUBLE = 10  allowed distance from the maximum number of running requests, 0 to 100
-- Columns:
--   rank INTEGER, device VARCHAR
--   first_step            BIGINT   first step of the steady state
--   last_step             BIGINT   last step of the steady state
--   start_ns              BIGINT   start, ns since the first event of the trace
--   dur_ns                BIGINT   time from the start of the first to the end of the last step, ns
--   trace_pct             DOUBLE   dur_ns as a share of the time of all steps, 0 to 100
--   step_count            BIGINT
--   prefill_step_count    BIGINT   number of prefill-only steps
--   mixed_step_count      BIGINT   number of mixed steps
--   decode_step_count     BIGINT   number of decode-only steps
--   verify_step_count     BIGINT   number of verify steps (speculative decoding)
--   max_running_count     BIGINT   maximum number of running requests
--   mean_running_count    DOUBLE   mean number of running requests in steps that decode
--   prefill_token_count BIGINT, decode_token_count BIGINT
--   prefill_tokens_per_s  DOUBLE   prefill tokens per second of busy and idle time
--   decode_tokens_per_s   DOUBLE   decode tokens per second of busy and idle time
--   wall_ns               BIGINT   busy time of the steps, ns
--   idle_ns               BIGINT   idle time before work of the steps, ns
--   idle_pct              DOUBLE   idle_ns as a share of wall_ns + idle_ns, 0 to 100
--   reason                VARCHAR  why there is no steady state; else NULL
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
        if(
            bool_and(prefill_token_count IS NOT NULL), sum(prefill_token_count)::BIGINT, NULL
        ) AS prefill_token_count,
        if(
            bool_and(decode_token_count IS NOT NULL), sum(decode_token_count)::BIGINT, NULL
        ) AS decode_token_count
    FROM inside
    GROUP BY trace_id
),

steady_work AS (
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
            THEN 'the step ranges do not contain the number of requests per batch'
    END AS reason
FROM device_windows AS w
INNER JOIN extent AS e USING (trace_id)
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN summed AS s USING (trace_id)
LEFT JOIN steady_work AS k USING (trace_id, device)
ORDER BY w.rank NULLS LAST, w.trace_id, w.device
