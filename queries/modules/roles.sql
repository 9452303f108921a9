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
-- Requires: device_windows, role_work, phase_order, role_order
-- Params:
--   phase  VARCHAR = NULL  only this phase
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

SELECT
    w.rank, w.device, d.phase, d.role,
    count(*) FILTER (d.piece = 0) AS kernel_count,
    sum(d.dur_ns)::BIGINT AS kernel_ns,
    sum(d.wall_ns)::BIGINT AS wall_ns,
    100.0 * sum(d.wall_ns)::BIGINT / nullif(
        sum(sum(d.wall_ns) + coalesce(sum(d.idle_ns), 0)) OVER (
            PARTITION BY w.trace_id, w.device, d.phase
        ), 0
    )::BIGINT AS phase_pct,
    100.0 * sum(d.wall_ns)::BIGINT / nullif(w.window_ns, 0) AS wall_pct,
    coalesce(sum(d.dur_ns) FILTER (d.is_inferred), 0)::BIGINT AS inferred_ns
FROM role_work('module') AS d
INNER JOIN device_windows AS w USING (trace_id, device)
WHERE $phase IS NULL OR d.phase = $phase
GROUP BY w.trace_id, w.rank, w.device, w.window_ns, d.phase, d.role
ORDER BY
    w.rank NULLS LAST,
    w.trace_id, w.device,
    phase_order(d.phase),
    role_order(d.role) NULLS LAST,
    d.role
