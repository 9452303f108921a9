-- GPU time by part of a decoder, summed over all devices and phases.
-- Without modules, roles follow from the names and the order of kernels and ops. Shares are relative to the sum of the
-- device windows. Time per step is the mean over the steps of all devices and excludes work launched outside steps.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   roles per total
-- Columns:
--   role          VARCHAR  part, as in roles
--   kernel_count BIGINT, kernel_ns BIGINT
--   wall_ns       BIGINT   busy time, ns; overlap counts once; adds up to the busy time of all devices
--   wall_pct      DOUBLE   wall_ns as a share of all windows, 0 to 100
--   inferred_ns   BIGINT   part of kernel_ns whose role is inferred, ns
--   step_wall_ns  DOUBLE   busy time per step, ns; overlap counts once; NULL without steps
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND inferred_ns <= kernel_ns

WITH in_step AS (
    SELECT role, sum(wall_ns)::BIGINT AS wall_ns
    FROM roles(p_steps := TRUE)
    GROUP BY role
)

SELECT
    r.role,
    sum(r.kernel_count)::BIGINT AS kernel_count,
    sum(r.kernel_ns)::BIGINT AS kernel_ns,
    sum(r.wall_ns)::BIGINT AS wall_ns,
    100.0 * sum(r.wall_ns)::BIGINT
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS wall_pct,
    sum(r.inferred_ns)::BIGINT AS inferred_ns,
    coalesce(any_value(s.wall_ns), 0)
    / (SELECT sum(step_count)::BIGINT FROM stepped_devices('steps')) AS step_wall_ns
FROM roles() AS r
LEFT JOIN in_step AS s USING (role)
GROUP BY r.role
ORDER BY sum(r.wall_ns) DESC, r.role
