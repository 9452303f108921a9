-- Causes of idle time, summed over all devices.
-- Shares are relative to the sum of the device windows. Op, module, and Python function come from the device with the
-- most idle time of that cause.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   idle_causes per total
-- Input:    idle_causes
-- Columns:
--   cause       VARCHAR  as in idle_causes
--   gap_count   BIGINT   number of gaps
--   idle_ns     BIGINT   idle time, ns; adds up to the idle time of all devices
--   idle_pct    DOUBLE   share of all device windows, 0 to 100
--   top_op      VARCHAR  op with the most idle time
--   top_module  VARCHAR  module with the most idle time
--   top_python  VARCHAR  Python function with the most idle time
-- View:
--   chart  name=idle_causes form=bars title="Causes of idle time" y=cause order=rows x=idle_ns
--          axis="idle time of all devices" colour=grey tip=cause,idle_ns,idle_pct,gap_count,top_op,top_module,top_python
-- Invariant: gap_count > 0 AND idle_ns > 0
-- Invariant: idle_pct IS NULL OR idle_pct <= 100.0000001

SELECT
    cause,
    sum(gap_count)::BIGINT AS gap_count,
    sum(idle_ns)::BIGINT AS idle_ns,
    100.0 * sum(idle_ns)::BIGINT
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS idle_pct,
    list(top_op ORDER BY idle_ns DESC, rowid)[1] AS top_op,
    list(top_module ORDER BY idle_ns DESC, rowid)[1] AS top_module,
    list(top_python ORDER BY idle_ns DESC, rowid)[1] AS top_python
FROM idle_causes
GROUP BY cause
ORDER BY sum(idle_ns) DESC, cause
