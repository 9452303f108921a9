-- Share of a step in which the accelerator is idle, recorded and unprofiled.
-- Profiling slows the host, so recorded steps take longer and contain more idle time. GPU work takes the same time
-- without the profiler; the rest of a measured step is idle time. If no step was measured, see `unprofiled`.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   unprofiled per total
-- Input:    step_totals
-- Columns:
--   recorded_step_ns   BIGINT   mean recorded step, ns
--   work_ns            BIGINT   GPU busy time per step, including work outside steps, ns
--   unprofiled_step_ns BIGINT   measured step without the profiler, ns; NULL if not measured
--   low_ns             BIGINT   10th percentile of the measured steps, ns; NULL if only their median is known
--   high_ns            BIGINT   90th percentile of the measured steps, ns
--   recorded_idle_pct  DOUBLE   idle share of the recorded step, 0 to 100
--   idle_pct           DOUBLE   idle share of the measured step, 0 to 100; NULL if the step was not measured or is shorter than the work
--   source             VARCHAR  given (by --unprofiled-step) or measured
-- Invariant: idle_pct IS NULL OR (0 <= idle_pct AND idle_pct <= 100)
-- Empty: device_events: no GPU work was recorded
-- Empty: no steps are marked

SELECT
    s.mean_span_ns::BIGINT AS recorded_step_ns,
    (s.step_work_ns + s.step_other_ns)::BIGINT AS work_ns,
    p.step_ns AS unprofiled_step_ns,
    p.low_ns, p.high_ns,
    share_left(work_ns, s.mean_span_ns) AS recorded_idle_pct,
    if(p.step_ns >= 0.97 * work_ns, share_left(work_ns, p.step_ns), NULL) AS idle_pct,
    p.source
FROM step_totals AS s
LEFT JOIN measured_step AS p ON TRUE
WHERE s.mean_span_ns > 0 AND EXISTS (FROM device_windows WHERE device <> 'cpu')
