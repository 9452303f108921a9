-- Busy and idle time by phase, summed over all devices.
-- Shares are relative to the sum of the device windows. Time per step is the mean over the steps of all devices and
-- excludes work launched outside steps.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   phases per total
-- Input:    phases
-- Columns:
--   phase VARCHAR, kernel_ns BIGINT, wall_ns BIGINT, idle_ns BIGINT
--   span_ns            BIGINT  busy and idle time, ns
--   exposed_comm_ns    BIGINT
--   covered_ns         BIGINT  busy time other than exposed communication, ns
--   span_pct           DOUBLE  span_ns as a share of all windows, 0 to 100
--   kernel_count       BIGINT
--   compute_kernel_ns  BIGINT  sum of durations of compute events, ns
--   inferred_ns        BIGINT  part of kernel_ns whose phase is inferred, ns
--   device_count       BIGINT  number of devices with the phase
--   step_wall_ns       DOUBLE  busy time per step, ns; overlap counts once; adds up to step_work_ns of step_totals; NULL without steps
--   step_idle_ns          DOUBLE  idle time per step, ns; NULL without steps
--   step_exposed_comm_ns  DOUBLE  exposed communication per step, ns; NULL without steps
-- View:
--   chart  name=phases form=bars title="Time by phase" y=phase order=rows x_of=span_ns
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
    sum(in_step_ns)::BIGINT / any_value(s.step_count) AS step_wall_ns,
    sum(step_ns - in_step_ns)::BIGINT / any_value(s.step_count) AS step_idle_ns,
    sum(p.step_exposed_comm_ns)::BIGINT / any_value(s.step_count) AS step_exposed_comm_ns
FROM phases AS p
CROSS JOIN (SELECT sum(step_count)::BIGINT AS step_count FROM stepped_devices('steps')) AS s
GROUP BY phase
ORDER BY min(p.rowid)
