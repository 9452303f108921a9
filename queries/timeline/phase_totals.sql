-- How long were all devices of the run together in each phase: busy, and waiting for it?
-- The sums of phases over all devices. Shares are of the sum of their windows; a step is the mean of the steps of all
-- devices, and what was launched outside of steps is in none.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   phases
-- Input:    phases
-- Columns:
--   phase              VARCHAR  as in phases
--   kernel_ns          BIGINT   sum of the durations of its device events, ns; overlap counts twice
--   wall_ns            BIGINT   busy time that is its own, ns
--   idle_ns            BIGINT   idle time before its device events, ns
--   span_ns            BIGINT   wall_ns + idle_ns, ns
--   exposed_comm_ns    BIGINT   part of wall_ns when there is only communication, ns
--   covered_ns         BIGINT   wall_ns - exposed_comm_ns: the rest of its busy time, ns
--   span_pct           DOUBLE   span_ns of all windows, 0 to 100
--   kernel_count       BIGINT   device events
--   compute_kernel_ns  BIGINT   sum of the durations of its compute events, ns
--   inferred_ns        BIGINT   part of kernel_ns whose phase does not come from the launch's own context, ns
--   device_count       BIGINT   devices that have the phase
--   step_wall_ns       DOUBLE   busy time in steps, per step, ns; adds up to step_work_ns of step_totals; NULL without steps
-- View:
--   chart  name=phases form=bars title="Where the time goes, by phase" y=phase order=rows x_of=span_ns
--          axis="time of all devices" parts=covered_ns,exposed_comm_ns,idle_ns
--          tip=phase,span_ns,span_pct,covered_ns,exposed_comm_ns,idle_ns,kernel_count
-- Invariant: span_ns = wall_ns + idle_ns AND exposed_comm_ns <= wall_ns AND wall_ns <= kernel_ns
-- Invariant: 0 <= span_pct AND span_pct <= 100.0000001

SELECT
    phase,
    sum(kernel_ns)::BIGINT AS kernel_ns,
    sum(wall_ns)::BIGINT AS wall_ns,
    sum(idle_ns)::BIGINT AS idle_ns,
    sum(wall_ns + idle_ns)::BIGINT AS span_ns,
    sum(exposed_comm_ns)::BIGINT AS exposed_comm_ns,
    sum(wall_ns - exposed_comm_ns)::BIGINT AS covered_ns,
    100.0 * sum(wall_ns + idle_ns)::BIGINT
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS span_pct,
    sum(kernel_count)::BIGINT AS kernel_count,
    sum(compute_kernel_ns)::BIGINT AS compute_kernel_ns,
    sum(inferred_ns)::BIGINT AS inferred_ns,
    count(*) AS device_count,
    sum(in_step_ns)::BIGINT
    / (SELECT sum(step_count)::BIGINT FROM stepped_devices('steps')) AS step_wall_ns
FROM phases
GROUP BY phase
ORDER BY min(rowid)
