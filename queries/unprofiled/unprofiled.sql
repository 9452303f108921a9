-- Step time and idle share without the profiler, per rank.
-- Uses the step measured without the profiler (run.json or `--unprofiled-step`) if known. Otherwise, the dependency
-- graph is replayed without profiler overhead. The overhead consists of a constant per kind of event and of the host
-- slowdown (`host_speed`).
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   rank                INTEGER
--   recorded_step_ns    BIGINT   recorded step, ns; the device window if no steps are marked
--   work_ns             BIGINT   busy time per step of the busiest accelerator, ns; NULL on cpu
--   measured_step_ns    BIGINT   measured step without the profiler, ns; NULL if not measured
--   unprofiled_step_ns  BIGINT   step time without the profiler, ns; NULL if reason is set
--   low_ns BIGINT, high_ns BIGINT
--   recorded_idle_pct   DOUBLE   idle share of the recorded step, 0 to 100
--   idle_pct            DOUBLE   idle share without the profiler, 0 to 100
--   idle_low_pct        DOUBLE   lower bound, 0 to 100
--   idle_high_pct       DOUBLE   upper bound, 0 to 100
--   profiler_idle_pct   DOUBLE   share of the recorded idle time caused by the profiler, 0 to 100
--   host_factor         DOUBLE   factor on the modeled host time at which the replay matches the measured step; near 1 if the model is right
--   basis               VARCHAR  measured or constants
--   reason              VARCHAR  why there is no estimate
-- Keep:     rank, recorded_step_ns, unprofiled_step_ns, low_ns, high_ns, recorded_idle_pct, idle_pct, basis
-- Invariant: unprofiled_step_ns IS NOT NULL OR reason IS NOT NULL
-- Invariant: unprofiled_step_ns IS NOT NULL OR (idle_pct IS NULL AND profiler_idle_pct IS NULL)
-- Invariant: low_ns IS NULL OR low_ns <= high_ns
-- Invariant: idle_pct IS NULL OR (idle_pct BETWEEN 0 AND 100)
-- Empty: device_events: no GPU work was recorded

SELECT
    t.rank,
    b.recorded_ns AS recorded_step_ns,
    b.work_ns,
    b.measured_ns AS measured_step_ns,
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
