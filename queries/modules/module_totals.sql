-- In which modules was the time of all devices of the run spent, as a tree?
-- The sums of modules over all devices, phases and layers. Shares are of the sum of the windows; a step is the mean of the
-- steps of all devices, and what was launched outside of steps is in none.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   modules
-- Input:    modules
-- Columns:
--   module_path      VARCHAR  whole name of the module with the numbers of layers replaced by *, or a row in parentheses
--   parent_path      VARCHAR  that of the module around it; NULL at the top
--   depth            INTEGER  modules around it
--   kernel_count     BIGINT   device events of its own
--   self_kernel_ns   BIGINT   sum of their durations, ns
--   self_wall_ns     BIGINT   busy time that is its own, ns; adds up to the devices' busy time
--   total_wall_ns    BIGINT   busy time of its own and of modules inside of it, ns
--   self_pct         DOUBLE   self_wall_ns of all windows, 0 to 100
--   wall_pct         DOUBLE   total_wall_ns of all windows, 0 to 100
--   total_kernel_ns  BIGINT   sum of durations, its own and of modules inside of it, ns
--   step_wall_ns     DOUBLE   part of total_wall_ns in steps, per step, ns; NULL without steps
-- Keep:     module_path, kernel_count, self_wall_ns, total_wall_ns, self_pct, wall_pct, depth
-- Invariant: 0 <= self_wall_ns AND self_wall_ns <= total_wall_ns AND total_wall_ns <= total_kernel_ns
-- Invariant: (depth = 0) = (parent_path IS NULL)
-- Invariant: wall_pct IS NULL OR (0 <= wall_pct AND wall_pct <= 100.0000001)

SELECT
    rollup_path AS module_path, parent_path, depth,
    sum(kernel_count)::BIGINT AS kernel_count,
    sum(self_kernel_ns)::BIGINT AS self_kernel_ns,
    sum(self_wall_ns)::BIGINT AS self_wall_ns,
    sum(total_wall_ns)::BIGINT AS total_wall_ns,
    100.0 * sum(self_wall_ns)::BIGINT
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS self_pct,
    100.0 * sum(total_wall_ns)::BIGINT
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS wall_pct,
    sum(total_kernel_ns)::BIGINT AS total_kernel_ns,
    sum(in_step_ns)::BIGINT
    / (SELECT sum(step_count)::BIGINT FROM stepped_devices('steps')) AS step_wall_ns
FROM modules
GROUP BY rollup_path, parent_path, depth
ORDER BY min(rowid)
