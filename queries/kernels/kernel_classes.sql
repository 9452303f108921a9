-- Which classes of kernels held the device?
-- A collective whose record tells what it was has that class; the name of its kernel may say less (SendRecv).
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu
--   class         VARCHAR  class of the kernels, as in table kernel_class
--   kind          VARCHAR  compute, comm or memcpy
--   kernel_count  BIGINT   device events
--   kernel_ns     BIGINT   sum of their durations, ns; overlap counts twice
--   wall_ns       BIGINT   busy time that is theirs, ns; adds up to the device's busy time
--   wall_pct      DOUBLE   wall_ns of the device's window, 0 to 100
--   in_step_ns    BIGINT   part of wall_ns that was launched in a step, ns
-- View:
--   breakdown  totals=kernel_class_totals
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND in_step_ns <= wall_ns

SELECT
    w.rank, w.device, e.class, e.kind,
    count(*) FILTER (e.piece = 0) AS kernel_count,
    sum(e.dur_ns)::BIGINT AS kernel_ns,
    sum(e.wall_ns)::BIGINT AS wall_ns,
    100.0 * sum(e.wall_ns)::BIGINT / nullif(w.window_ns, 0) AS wall_pct,
    coalesce(sum(e.wall_ns) FILTER (e.step IS NOT NULL), 0)::BIGINT AS in_step_ns
FROM classified_events AS e
INNER JOIN device_windows AS w USING (trace_id, device)
GROUP BY w.trace_id, w.rank, w.device, w.window_ns, e.class, e.kind
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, wall_ns DESC, e.class, e.kind
