-- Work of which classes did each module do itself?
-- Rows of modules, each split by the classes of its own kernels: self_wall_ns over all rows is the device's busy time, of
-- a module that of modules over its phases, and of a class that of kernel_classes.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank            INTEGER  global rank
--   device          VARCHAR  number of the device, or cpu
--   module_path     VARCHAR  name of the module with the numbers of layers replaced by *, or a row in parentheses
--   class           VARCHAR  class of the kernels, as in kernel_classes
--   kind            VARCHAR  compute, comm or memcpy
--   kernel_count    BIGINT   device events
--   self_kernel_ns  BIGINT   sum of their durations, ns
--   self_wall_ns    BIGINT   busy time that is theirs, ns
--   wall_pct        DOUBLE   self_wall_ns of the device's window, 0 to 100
-- Invariant: 0 <= self_wall_ns AND self_wall_ns <= self_kernel_ns

SELECT
    w.rank, w.device,
    coalesce(m.rollup_path, e.row_name) AS module_path,
    e.class, e.kind,
    count(*) FILTER (e.piece = 0) AS kernel_count,
    sum(e.dur_ns)::BIGINT AS self_kernel_ns,
    sum(e.wall_ns)::BIGINT AS self_wall_ns,
    100.0 * sum(e.wall_ns)::BIGINT / nullif(w.window_ns, 0) AS wall_pct
FROM attributed_events AS e
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN module AS m USING (trace_id, module_id)
GROUP BY
    w.trace_id, w.rank, w.device, w.window_ns, coalesce(m.rollup_path, e.row_name), e.class, e.kind
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, self_wall_ns DESC, module_path, e.class, e.kind
