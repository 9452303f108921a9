-- GPU time of modules by kernel class, per device.
-- self_wall_ns adds up to the busy time of the device. Rows of a module add up to its busy time in all phases, and rows
-- of a class to the busy time of that class.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   modules per class
-- Columns:
--   rank INTEGER, device VARCHAR
--   module_path     VARCHAR  module path with layer numbers replaced by *, or a row such as (optimizer) for work outside modules
--   class           VARCHAR  kernel class, as in kernel_classes
--   kind VARCHAR, kernel_count BIGINT
--   self_kernel_ns  BIGINT   sum of durations, ns
--   self_wall_ns    BIGINT   busy time, ns; overlap counts once
--   wall_pct        DOUBLE   self_wall_ns as a share of the device window, 0 to 100
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
