-- GPU time by kernel class, per device.
-- The class of a collective comes from collective_events, because the kernel name (SendRecv) may not show it.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR, class VARCHAR, kind VARCHAR, kernel_count BIGINT, kernel_ns BIGINT
--   wall_ns     BIGINT  busy time, ns; overlap counts once; adds up to the busy time of the device
--   wall_pct    DOUBLE
--   in_step_ns  BIGINT  part of wall_ns from work launched in steps, ns
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
