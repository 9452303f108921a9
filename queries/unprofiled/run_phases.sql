-- The phases of a step, in the recording and without the profiler
-- Of each accelerator: its work in the phase and its idle time while the host is in it, as in analysis phases. The
-- recorded ones add up to the recorded step, those of the run to the unprofiled step: its idle time has the shares that
-- the phases have in the replay of the run, where a gap is shared as it is in the recording. Without marked steps it is
-- all of the window.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   rank         INTEGER  global rank
--   device       VARCHAR  number of the device
--   phase        VARCHAR  phase
--   work_ns      BIGINT   of a step, in which work of the phase runs, ns
--   recorded_ns  BIGINT   of a recorded step, that and its idle time, ns
--   run_ns       BIGINT   the same of a step without the profiler, ns; NULL where that is not known
--   low_ns       BIGINT   at least, ns
--   high_ns      BIGINT   at most, ns
-- Invariant: work_ns <= recorded_ns AND (run_ns IS NULL OR work_ns <= run_ns)
-- Invariant: low_ns IS NULL OR run_ns IS NULL OR (low_ns <= run_ns AND run_ns <= high_ns)
-- Empty: no work of an accelerator is recorded

WITH placed AS (
    SELECT trace_id, device, phase, step, wall_ns, 0 AS idle_ns
    FROM attributed_events
    UNION ALL
    SELECT trace_id, device, phase, step, 0 AS wall_ns, idle_ns
    FROM idle_gap
),

recorded AS (
    SELECT
        p.trace_id, p.device, p.phase,
        sum(p.wall_ns) / greatest(any_value(r.step_count), 1) AS work_ns,
        sum(p.idle_ns) / greatest(any_value(r.step_count), 1) AS idle_ns
    FROM placed AS p
    INNER JOIN recorded_step AS r USING (trace_id)
    WHERE p.device <> 'cpu' AND (p.step IS NOT NULL OR r.step_count = 0)
    GROUP BY p.trace_id, p.device, p.phase
),

replayed AS (
    SELECT
        s.trace_id, s.device, s.event_id, s.piece, a.phase,
        b.at_ns AS start_ns,
        latest_end_before_ns((s.trace_id, s.device), b.at_ns, e.at_ns, s.span_id) AS before_ns
    FROM graph_span AS s
    INNER JOIN attributed_events AS a USING (trace_id, event_id, piece)
    INNER JOIN recorded_step AS r USING (trace_id)
    INNER JOIN run_replay AS b ON s.span_id * 2 = b.node
    INNER JOIN run_replay AS e ON s.span_id * 2 + 1 = e.node
    WHERE s.kind = 'work' AND s.device <> 'cpu' AND (s.step IS NOT NULL OR r.step_count = 0)
),

gap_share AS (
    SELECT
        trace_id, next_event_id AS event_id, next_piece AS piece, phase,
        sum(idle_ns) / sum(sum(idle_ns)) OVER (PARTITION BY trace_id, next_event_id, next_piece)
            AS share
    FROM idle_gap
    GROUP BY trace_id, next_event_id, next_piece, phase
),

gap AS (
    SELECT
        p.trace_id, p.device,
        coalesce(g.phase, p.phase) AS phase,
        sum((p.start_ns - p.before_ns) * coalesce(g.share, 1)) AS gap_ns
    FROM replayed AS p
    LEFT JOIN gap_share AS g USING (trace_id, event_id, piece)
    WHERE p.start_ns > p.before_ns
    GROUP BY p.trace_id, p.device, coalesce(g.phase, p.phase)
),

-- Where no gap is recorded or replayed, idle time is shared as work is.
shared AS (
    SELECT
        r.trace_id, r.device, r.phase, r.work_ns,
        sum(r.work_ns) OVER device AS all_work_ns,
        coalesce(
            r.idle_ns / nullif(sum(r.idle_ns) OVER device, 0),
            r.work_ns / nullif(sum(r.work_ns) OVER device, 0)
        ) AS idle_share,
        coalesce(coalesce(g.gap_ns, 0) / nullif(sum(g.gap_ns) OVER device, 0), idle_share)
            AS run_idle_share
    FROM recorded AS r
    LEFT JOIN gap AS g USING (trace_id, device, phase)
    WINDOW device AS (PARTITION BY r.trace_id, r.device)
)

SELECT
    t.rank, s.device, s.phase,
    round(s.work_ns)::BIGINT AS work_ns,
    round(s.work_ns + greatest(b.recorded_ns - s.all_work_ns, 0) * s.idle_share)::BIGINT
        AS recorded_ns,
    round(s.work_ns + greatest(b.unprofiled_ns - s.all_work_ns, 0) * s.run_idle_share)::BIGINT
        AS run_ns,
    round(s.work_ns + greatest(b.low_ns - s.all_work_ns, 0) * s.run_idle_share)::BIGINT AS low_ns,
    round(s.work_ns + greatest(b.high_ns - s.all_work_ns, 0) * s.run_idle_share)::BIGINT
        AS high_ns
FROM shared AS s
INNER JOIN run_basis AS b USING (trace_id)
INNER JOIN trace AS t USING (trace_id)
ORDER BY t.rank NULLS LAST, s.trace_id, s.device, recorded_ns DESC, s.phase
