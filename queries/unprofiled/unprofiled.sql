-- How long does a step take without the profiler, and how much of the idle time is the profiler's?
-- A recording of a loop that waits for its host is longer than the run. Where a step was measured without the profiler
-- (in run.json, or given with --plain-step), it is that step. Else the dependency graph is replayed without what the
-- profiler added to the host: a constant for each kind of event, times the speed of the host at that moment, which is
-- read off the gaps between nested ops.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   rank                INTEGER  global rank
--   recorded_step_ns    BIGINT   a step in the recording, where many follow each other, ns; without marked steps the window
--   work_ns             BIGINT   time of it in which the busiest accelerator works, ns; NULL where CPUs do the work
--   plain_step_ns       BIGINT   a step that was measured without the profiler, ns; NULL where none was
--   unprofiled_step_ns  BIGINT   a step without the profiler, ns; NULL with a reason
--   low_ns              BIGINT   at least, ns
--   high_ns             BIGINT   at most, ns
--   recorded_idle_pct   DOUBLE   of a recorded step, time in which that accelerator is idle, 0 to 100
--   idle_pct            DOUBLE   the same of a step without the profiler, 0 to 100
--   idle_low_pct        DOUBLE   at least, 0 to 100
--   idle_high_pct       DOUBLE   at most, 0 to 100
--   profiler_idle_pct   DOUBLE   of the recorded idle time, what is the profiler's, 0 to 100
--   host_factor         DOUBLE   on the host's own time, so that the replay takes the measured step; near 1 where the model is right
--   basis               VARCHAR  plain step or constants
--   reason              VARCHAR  why there is no figure
-- Keep:     rank, recorded_step_ns, unprofiled_step_ns, low_ns, high_ns, recorded_idle_pct, idle_pct, basis
-- Invariant: unprofiled_step_ns IS NOT NULL OR reason IS NOT NULL
-- Invariant: unprofiled_step_ns IS NOT NULL OR (idle_pct IS NULL AND profiler_idle_pct IS NULL)
-- Invariant: low_ns IS NULL OR low_ns <= high_ns
-- Invariant: idle_pct IS NULL OR (idle_pct BETWEEN 0 AND 100)
-- Empty: device_events: no work of a device is recorded

SELECT
    t.rank,
    b.recorded_ns AS recorded_step_ns,
    b.work_ns,
    b.measured_ns AS plain_step_ns,
    b.unprofiled_ns AS unprofiled_step_ns,
    b.low_ns, b.high_ns,
    share_left(b.work_ns, b.recorded_ns) AS recorded_idle_pct,
    share_left(b.work_ns, b.unprofiled_ns) AS idle_pct,
    share_left(b.work_ns, b.low_ns) AS idle_low_pct,
    share_left(b.work_ns, b.high_ns) AS idle_high_pct,
    CASE
        WHEN b.unprofiled_ns IS NOT NULL
            THEN share_left(
                greatest(b.unprofiled_ns - b.work_ns, 0), b.recorded_ns - b.work_ns
            )
    END AS profiler_idle_pct,
    b.factor AS host_factor,
    b.basis, b.reason
FROM run_basis AS b
INNER JOIN trace AS t USING (trace_id)
ORDER BY t.rank NULLS LAST, b.trace_id
