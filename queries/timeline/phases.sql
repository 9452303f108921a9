-- Busy and idle time by phase, per device.
-- Each idle gap segment (`idle_gap`) belongs to the phase that the host was in, or to `other` between two phases. Busy
-- and idle time of all phases add up to the window.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR
--   phase                   VARCHAR  forward, recompute, backward, optimizer, data, prefill, mixed, decode, verify, or other
--   kernel_ns BIGINT, wall_ns BIGINT
--   idle_ns                 BIGINT   idle time while the host was in the phase, ns
--   exposed_comm_ns         BIGINT
--   span_pct                DOUBLE   busy and idle time as a share of the device window, 0 to 100
--   kernel_count            BIGINT
--   compute_kernel_ns       BIGINT   sum of durations of compute events, ns
--   inferred_ns             BIGINT   part of kernel_ns whose phase is inferred, ns
--   step_ns                 BIGINT   part of the busy and idle time within steps, ns
--   step_compute_kernel_ns  BIGINT   part of compute_kernel_ns from work launched in steps, ns
--   in_step_ns              BIGINT   part of wall_ns from work launched in steps, ns
--   step_exposed_comm_ns    BIGINT   part of exposed_comm_ns from work launched in steps, ns
-- View:
--   breakdown  totals=phase_totals
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND exposed_comm_ns <= wall_ns
-- Invariant: compute_kernel_ns <= kernel_ns AND inferred_ns <= kernel_ns AND idle_ns >= 0
-- Invariant: in_step_ns <= wall_ns AND in_step_ns <= step_ns
-- Invariant: step_ns <= wall_ns + idle_ns AND step_compute_kernel_ns <= compute_kernel_ns
-- Invariant: 0 <= span_pct AND span_pct <= 100.0000001

WITH placed AS (
    SELECT
        trace_id, d.device, a.phase, a.is_inferred, a.step, d.kind, piece, d.dur_ns, d.wall_ns,
        0 AS idle_ns
    FROM device_events AS d
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    UNION ALL BY NAME
    SELECT trace_id, device, phase, step, 0 AS dur_ns, 0 AS wall_ns, idle_ns
    FROM idle_gap
)

SELECT
    w.rank, w.device, p.phase,
    sum(p.dur_ns)::BIGINT AS kernel_ns,
    sum(p.wall_ns)::BIGINT AS wall_ns,
    sum(p.idle_ns)::BIGINT AS idle_ns,
    coalesce(sum(p.wall_ns) FILTER (p.kind = 'comm'), 0)::BIGINT AS exposed_comm_ns,
    100.0 * sum(p.wall_ns + p.idle_ns)::BIGINT / nullif(w.window_ns, 0) AS span_pct,
    count(*) FILTER (p.piece = 0) AS kernel_count,
    coalesce(sum(p.dur_ns) FILTER (p.kind = 'compute'), 0)::BIGINT AS compute_kernel_ns,
    coalesce(sum(p.dur_ns) FILTER (p.is_inferred), 0)::BIGINT AS inferred_ns,
    coalesce(sum(p.wall_ns + p.idle_ns) FILTER (p.step IS NOT NULL), 0)::BIGINT AS step_ns,
    coalesce(sum(p.dur_ns) FILTER (p.kind = 'compute' AND p.step IS NOT NULL), 0)::BIGINT
        AS step_compute_kernel_ns,
    coalesce(sum(p.wall_ns) FILTER (p.step IS NOT NULL), 0)::BIGINT AS in_step_ns,
    coalesce(sum(p.wall_ns) FILTER (p.kind = 'comm' AND p.step IS NOT NULL), 0)::BIGINT
        AS step_exposed_comm_ns
FROM placed AS p
INNER JOIN device_windows AS w USING (trace_id, device)
GROUP BY w.trace_id, w.rank, w.device, w.window_ns, p.phase
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, phase_order(p.phase)
