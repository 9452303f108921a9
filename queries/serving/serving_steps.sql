-- Requests, tokens, and device time of each serving step.
-- Batches come from the ranges of the engine. The row with step NULL contains work launched outside steps, so the rows
-- of a device add up to its window.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   tolerance_pct  DOUBLE = 10  tolerance of the steady state, as in serving_window
-- Columns:
--   rank INTEGER, device VARCHAR
--   step       BIGINT   step number; NULL outside steps
--   phase      VARCHAR  prefill, decode, mixed, or verify
--   prefill_request_count BIGINT, prefill_token_count BIGINT, decode_request_count BIGINT
--   decode_token_count BIGINT, request_count BIGINT
--   is_steady  BOOLEAN  the step is part of the steady state; NULL if unknown
--   start_ns   BIGINT   start on the host, ns since the first event of the trace
--   dur_ns     BIGINT   duration on the host, ns
--   kernel_count BIGINT, kernel_ns BIGINT, wall_ns BIGINT
--   idle_ns    BIGINT   idle time before device events of the step, ns
--   idle_pct   DOUBLE   idle_ns as a share of wall_ns and idle_ns, 0 to 100
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND 0 <= idle_ns
-- Invariant: (step IS NULL) = (phase IS NULL)

WITH step_device AS (
    SELECT
        w.trace_id, w.rank, w.device, s.step, s.phase, s.prefill_request_count,
        s.prefill_token_count, s.decode_request_count, s.decode_token_count, s.request_count,
        s.ts_ns, s.dur_ns,
        s.ts_ns >= y.start_ns AND s.ts_ns < y.end_ns AS is_steady
    FROM device_windows AS w
    INNER JOIN serving_step_ranges AS s ON w.trace_id = s.trace_id
    LEFT JOIN steady_window('serving_step_ranges', $tolerance_pct) AS y ON s.trace_id = y.trace_id
    UNION ALL BY NAME
    SELECT w.trace_id, w.rank, w.device
    FROM device_windows AS w
    WHERE w.trace_id IN (SELECT trace_id FROM serving_step_ranges)
)

SELECT
    sd.rank, sd.device, sd.step, sd.phase, sd.prefill_request_count, sd.prefill_token_count,
    sd.decode_request_count, sd.decode_token_count, sd.request_count, sd.is_steady,
    sd.ts_ns - t.first_ts_ns AS start_ns,
    sd.dur_ns,
    coalesce(sw.kernel_count, 0) AS kernel_count,
    coalesce(sw.kernel_ns, 0) AS kernel_ns,
    coalesce(sw.wall_ns, 0) AS wall_ns,
    coalesce(sw.idle_ns, 0) AS idle_ns,
    100.0 * sw.idle_ns / nullif(sw.wall_ns + sw.idle_ns, 0) AS idle_pct
FROM step_device AS sd
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN serving_step_work AS sw
    ON sd.trace_id = sw.trace_id AND sd.device = sw.device AND sd.step IS NOT DISTINCT FROM sw.step
WHERE sd.step IS NOT NULL OR sw.kernel_count > 0
ORDER BY sd.rank NULLS LAST, sd.trace_id, sd.device, sd.ts_ns NULLS LAST, sd.step
