-- GPU time by part of a decoder and phase, per device.
-- The rows match the tables of arXiv 2311.03687. Backward work has the role of its forward op. Fused attention is one
-- row. Communication inside modules is part of the row for non-overlapped communication. Graph replays without modules,
-- work without a recorded launch, and Linear modules with other names have roles inferred from position or repetition,
-- or else (unattributed).
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   phase  VARCHAR = NULL   only this phase
--   steps  BOOLEAN = FALSE  only work in steps, if any are marked
-- Columns:
--   rank INTEGER, device VARCHAR, phase VARCHAR
--   role         VARCHAR  part, or a row such as (optimizer) for work outside modules; other: inside a module without a role
--   kernel_count BIGINT, kernel_ns BIGINT
--   wall_ns      BIGINT   busy time, ns; overlap counts once; adds up to the busy time of the phase
--   phase_pct    DOUBLE   share of the busy and idle time of the phase, 0 to 100
--   wall_pct     DOUBLE
--   inferred_ns  BIGINT   part of kernel_ns whose role is inferred, ns
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND inferred_ns <= kernel_ns
-- Invariant: phase_pct IS NULL OR (0 <= phase_pct AND phase_pct <= 100.0000001)

WITH summed AS (
    SELECT
        trace_id, device, phase, role,
        count(*) FILTER (piece = 0) AS kernel_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS wall_ns,
        coalesce(sum(dur_ns) FILTER (is_inferred), 0)::BIGINT AS inferred_ns
    FROM role_work
    WHERE
        ($phase IS NULL OR phase = $phase)
        AND (NOT $steps OR is_in_step(trace_id, step))
    GROUP BY trace_id, device, phase, role
),

idle AS (
    SELECT trace_id, device, phase, sum(idle_ns) AS idle_ns
    FROM idle_gap
    WHERE NOT $steps OR is_in_step(trace_id, step)
    GROUP BY trace_id, device, phase
)

SELECT
    w.rank, w.device, s.phase, s.role, s.kernel_count, s.kernel_ns, s.wall_ns,
    100.0 * s.wall_ns / nullif(
        sum(s.wall_ns) OVER (PARTITION BY w.trace_id, w.device, s.phase)
        + coalesce(i.idle_ns, 0), 0
    ) AS phase_pct,
    100.0 * s.wall_ns / nullif(w.window_ns, 0) AS wall_pct,
    s.inferred_ns
FROM summed AS s
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN idle AS i USING (trace_id, device, phase)
ORDER BY
    w.rank NULLS LAST,
    w.trace_id, w.device,
    phase_order(s.phase),
    role_order(s.role) NULLS LAST,
    s.role
