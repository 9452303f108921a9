-- GPU time by module, as a tree, summed over all devices, phases, and layers.
-- Shares are relative to the sum of the device windows. Time per step is the mean over the steps of all devices and
-- excludes work launched outside steps.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   modules per total
-- Input:    modules
-- Columns:
--   module_path      VARCHAR  module path with layer numbers replaced by *, or a row such as (optimizer) for work outside modules
--   parent_path      VARCHAR  path of the enclosing module; NULL at the top
--   depth            INTEGER
--   kernel_count     BIGINT   number of device events, excluding submodules
--   self_kernel_ns   BIGINT   sum of durations excluding submodules, ns
--   self_wall_ns     BIGINT   busy time excluding submodules, ns; overlap counts once; adds up to the busy time of all devices
--   total_wall_ns    BIGINT
--   self_pct         DOUBLE   self_wall_ns as a share of all windows, 0 to 100
--   wall_pct         DOUBLE   total_wall_ns as a share of all windows, 0 to 100
--   total_kernel_ns  BIGINT   sum of durations including submodules, ns
--   step_wall_ns     DOUBLE   total_wall_ns per step, ns; NULL without steps
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
