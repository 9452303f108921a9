-- Mean time per phase of a step, recorded and without the profiler.
-- The time of a phase is its GPU work plus the idle time while the host is in it, per device. Phases and work outside
-- steps add up to the mean step. Phases share the unprofiled idle time in the same proportions as in the replay without
-- the profiler. Without marked steps, the window counts as one step.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   phases per unprofiled_step
-- Columns:
--   rank INTEGER, device VARCHAR, phase VARCHAR
--   work_ns      BIGINT  GPU busy time per step, ns
--   recorded_ns  BIGINT  recorded busy and idle time per step, ns
--   run_ns       BIGINT  unprofiled busy and idle time per step, ns; NULL if unknown
--   low_ns BIGINT, high_ns BIGINT
-- Invariant: work_ns <= recorded_ns AND (run_ns IS NULL OR work_ns <= run_ns)
-- Invariant: low_ns IS NULL OR run_ns IS NULL OR (low_ns <= run_ns AND run_ns <= high_ns)
-- Empty: no GPU work was recorded

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
        sum(p.idle_ns) / greatest(any_value(r.step_count), 1) AS idle_ns,
        any_value(r.other_ns) AS other_ns
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

-- Phases of the idle time before the first work of a step. The idle time before any GPU work is in no gap, so these
-- phases divide it too.
boundary AS (
    SELECT
        g.trace_id, g.device, g.phase,
        sum(g.idle_ns) AS idle_ns
    FROM idle_gap AS g
    INNER JOIN (
        SELECT
            trace_id, device,
            arg_min((event_id, piece), (ts_ns, event_id, piece)) AS first_event
        FROM attributed_events
        WHERE step IS NOT NULL
        GROUP BY trace_id, device, step
    ) AS f
        ON
            g.trace_id = f.trace_id
            AND g.device = f.device
            AND (g.next_event_id, g.next_piece) = f.first_event
    WHERE g.step IS NOT NULL
    GROUP BY g.trace_id, g.device, g.phase
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

-- If no gap is recorded or replayed, divide the idle time in proportion to work.
shared AS (
    SELECT
        r.trace_id, r.device, r.phase, r.work_ns,
        sum(r.work_ns) OVER device + r.other_ns AS all_work_ns,
        sum(r.idle_ns) OVER device AS all_idle_ns,
        b.idle_ns / nullif(sum(b.idle_ns) OVER device, 0) AS boundary_share,
        count(b.idle_ns) OVER device > 0 AS has_boundary,
        coalesce(
            r.idle_ns / nullif(sum(r.idle_ns) OVER device, 0),
            r.work_ns / nullif(sum(r.work_ns) OVER device, 0)
        ) AS idle_share,
        coalesce(coalesce(g.gap_ns, 0) / nullif(sum(g.gap_ns) OVER device, 0), idle_share)
            AS run_idle_share
    FROM recorded AS r
    LEFT JOIN gap AS g USING (trace_id, device, phase)
    LEFT JOIN boundary AS b USING (trace_id, device, phase)
    WINDOW device AS (PARTITION BY r.trace_id, r.device)
)

SELECT
    t.rank, s.device, s.phase,
    round(s.work_ns)::BIGINT AS work_ns,
    round(
        s.work_ns
        + least(greatest(b.recorded_ns - s.all_work_ns, 0), s.all_idle_ns) * s.idle_share
        + greatest(b.recorded_ns - s.all_work_ns - s.all_idle_ns, 0)
        * if(s.has_boundary, coalesce(s.boundary_share, 0), s.idle_share)
    )::BIGINT AS recorded_ns,
    round(
        s.work_ns + (b.unprofiled_ns - least(b.unprofiled_ns, s.all_work_ns)) * s.run_idle_share
    )::BIGINT AS run_ns,
    round(s.work_ns + (b.low_ns - least(b.low_ns, s.all_work_ns)) * s.run_idle_share)::BIGINT
        AS low_ns,
    round(s.work_ns + (b.high_ns - least(b.high_ns, s.all_work_ns)) * s.run_idle_share)::BIGINT
        AS high_ns
FROM shared AS s
INNER JOIN run_basis AS b USING (trace_id)
INNER JOIN trace AS t USING (trace_id)
ORDER BY t.rank NULLS LAST, s.trace_id, s.device, recorded_ns DESC, s.phase
