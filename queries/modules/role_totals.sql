-- Which parts of a decoder was the time of all devices of the run spent on?
-- The sums of roles over all devices and phases. For traces without modules: there the names of kernels and ops and their
-- order tell the part. Shares are of the sum of the windows; a step is the mean of the steps of all devices, and what was
-- launched outside of steps is in none.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   roles
-- Columns:
--   role          VARCHAR  the part, as in roles
--   kernel_count  BIGINT   device events
--   kernel_ns     BIGINT   sum of their durations, ns
--   wall_ns       BIGINT   busy time that is theirs, ns; adds up to the devices' busy time
--   wall_pct      DOUBLE   wall_ns of all windows, 0 to 100
--   inferred_ns   BIGINT   part of kernel_ns whose role comes from the place of the work or module, or repetition, ns
--   step_wall_ns  DOUBLE   busy time in steps, per step, ns; NULL without steps
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
