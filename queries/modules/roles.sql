-- What did the parts of a decoder cost in each phase: embedding, QKV, RoPE, attention, MLP, norms, …?
-- The paper's rows. In the backward phase the role is that of the forward op. Fused attention is one row, Attention:
-- what of it is Bmm0, Softmax and Bmm1 cannot be told. Communication inside a module is part of the row for
-- non-overlapping communication: its wall_ns is the time when there is only communication. Work of graph replays,
-- whose launch tells no module, has a role by what runs before and after it on its stream, and is counted as inferred.
-- So is work whose launch is not in the trace: it has the role of what it repeats, else it is (unattributed). And so is
-- a bare Linear whose role follows from its place alone: the last one that an attention calls is the output projection.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   phase  VARCHAR = NULL  only this phase
--   steps  BOOLEAN = FALSE  only what belongs to a step, where some are marked
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu
--   phase         VARCHAR  as in phases
--   role          VARCHAR  the part; rows in parentheses are those of modules; other: inside a module without a role
--   kernel_count  BIGINT   device events
--   kernel_ns     BIGINT   sum of their durations, ns
--   wall_ns       BIGINT   busy time that is theirs, ns; adds up to the busy time of the phase
--   phase_pct     DOUBLE   wall_ns of the whole phase, busy and idle as in phases, 0 to 100
--   wall_pct      DOUBLE   wall_ns of the device's window, 0 to 100
--   inferred_ns   BIGINT   part of kernel_ns whose role comes from the place of the work or module, or repetition, ns
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
