-- Which part of a step is the accelerator idle, in the recording and in the run?
-- The profiler makes the host slower: a loop that waits for its host is recorded longer than it runs, and idle for longer.
-- Work takes as long as it does without the profiler, so where a step was measured without it, the rest is idle. Analysis
-- unprofiled estimates it where none was measured. One row, of the mean over steps and devices; none without marked
-- steps.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    step_totals
-- Columns:
--   recorded_step_ns   BIGINT   a step of the recording, in the mean, ns
--   work_ns            BIGINT   time of it in which the device works, ns
--   plain_step_ns      BIGINT   a step without the profiler, ns; NULL where none was measured
--   recorded_idle_pct  DOUBLE   share of a recorded step in which the device is idle, 0 to 100
--   idle_pct           DOUBLE   share of a step without the profiler, 0 to 100; NULL where none was measured, or one that is
--                               shorter than the work: it is not of this program
--   source             VARCHAR  given or measured
-- Invariant: idle_pct IS NULL OR (0 <= idle_pct AND idle_pct <= 100)
-- Empty: device_events: no work of a device is recorded
-- Empty: no step of a loop is marked

SELECT
    s.mean_span_ns::BIGINT AS recorded_step_ns,
    s.step_work_ns::BIGINT AS work_ns,
    p.plain_ns AS plain_step_ns,
    share_left(s.step_work_ns, s.mean_span_ns) AS recorded_idle_pct,
    if(p.plain_ns >= 0.97 * s.step_work_ns, share_left(s.step_work_ns, p.plain_ns), NULL)
        AS idle_pct,
    p.source
FROM step_totals AS s
LEFT JOIN plain_step AS p ON TRUE
WHERE s.mean_span_ns > 0 AND EXISTS (FROM device_windows WHERE device <> 'cpu')
