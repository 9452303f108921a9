-- Why did the devices of the run have nothing to do?
-- The sums of idle_causes over all devices. Shares are of the sum of their windows; op, module and Python function are
-- those of the device that idled longest for the cause.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   idle_causes
-- Input:    idle_causes
-- Columns:
--   cause       VARCHAR  as in idle_causes
--   gap_count   BIGINT   gaps
--   idle_ns     BIGINT   their length, ns; adds up to the idle time of all devices
--   idle_pct    DOUBLE   idle_ns of all windows, 0 to 100
--   top_op      VARCHAR  op that most of it is from, on the device with most of it
--   top_module  VARCHAR  module that most of it is from, on that device
--   top_python  VARCHAR  Python function that most of it is from, on that device
-- View:
--   chart  name=idle_causes form=bars title="Why the devices had nothing to do" y=cause order=rows x=idle_ns
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
