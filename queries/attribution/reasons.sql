-- GPU time per reason for which a phase or a module was assigned, per device.
-- wall_ns of the phase reasons adds up to the busy time, and so does wall_ns of the module reasons. Analysis `why`
-- explains single events.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR
--   decides   VARCHAR  phase or module
--   reason    VARCHAR  reason; none if unknown
--   kernel_count BIGINT, kernel_ns BIGINT, wall_ns BIGINT
--   wall_pct  DOUBLE   share of the busy time of the device, 0 to 100
--   meaning   VARCHAR  explanation of the reason
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns
-- Invariant: decides IN ('phase', 'module') AND meaning IS NOT NULL

WITH reasoned AS (
    SELECT
        trace_id, device, piece, dur_ns, wall_ns,
        unnest([
            {position: 1, decides: 'phase', reason: phase_reason},
            {position: 2, decides: 'module', reason: module_reason}
        ]) AS decision
    FROM attributed_events
),

summed AS (
    SELECT
        trace_id, device, decision,
        count(*) FILTER (piece = 0) AS kernel_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM reasoned
    GROUP BY trace_id, device, decision
)

SELECT
    w.rank, w.device, s.decision.decides, s.decision.reason, s.kernel_count, s.kernel_ns, s.wall_ns,
    100.0 * s.wall_ns / nullif(w.busy_ns, 0) AS wall_pct,
    r.meaning
FROM summed AS s
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN attribution_reasons() AS r ON s.decision.reason = r.reason
ORDER BY
    w.rank NULLS LAST, w.trace_id, w.device, s.decision.position, s.wall_ns DESC, s.decision.reason
