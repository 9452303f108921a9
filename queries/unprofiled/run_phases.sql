-- How long are the phases of a step without the profiler?
-- Of each accelerator: what its work takes, and its idle time while the host is in that phase, as in analysis phases. In
-- the recording, and in the replay of the run (analysis unprofiled says on what that rests): there a gap before work is
-- shared as it is in the recording. Without marked steps it is all of the window.
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
-- Invariant: work_ns <= recorded_ns
-- Empty: no work of an accelerator is recorded

WITH counted AS (
    SELECT trace_id, count(DISTINCT step) AS step_count, min(at_ns) AS begin_ns
    FROM step_moment
    GROUP BY trace_id
),

work AS (
    SELECT
        s.trace_id, s.device, s.span_id, s.event_id, s.piece, a.phase, s.start_ns, s.end_ns,
        b.at_ns AS run_start_ns,
        e.at_ns AS run_end_ns
    FROM graph_span AS s
    INNER JOIN attributed_events AS a USING (trace_id, event_id, piece)
    LEFT JOIN run_replay AS b ON s.span_id * 2 = b.node
    LEFT JOIN run_replay AS e ON s.span_id * 2 + 1 = e.node
    INNER JOIN counted AS c USING (trace_id)
    WHERE s.kind = 'work' AND s.device <> 'cpu' AND (s.step IS NOT NULL OR c.step_count = 0)
),

ended AS (
    SELECT
        w.*,
        latest_end_before_ns((trace_id, device), start_ns, end_ns, span_id) AS before_ns,
        latest_end_before_ns((trace_id, device), run_start_ns, run_end_ns, span_id)
            AS run_before_ns
    FROM work AS w
),

-- What each work adds to the time of its device, and the gap before it.
added AS (
    SELECT
        *,
        greatest(end_ns - greatest(start_ns, coalesce(before_ns, start_ns)), 0) AS work_ns,
        greatest(start_ns - before_ns, 0) AS gap_ns,
        CASE
            WHEN run_end_ns IS NOT NULL
                THEN
                    greatest(
                        run_end_ns - greatest(run_start_ns, coalesce(run_before_ns, run_start_ns)),
                        0
                    )
        END AS run_work_ns,
        CASE
            WHEN run_end_ns IS NOT NULL THEN greatest(run_start_ns - run_before_ns, 0)
        END AS run_gap_ns
    FROM ended
),

gap_share AS (
    SELECT
        trace_id, next_event_id AS event_id, next_piece AS piece, phase,
        sum(idle_ns) / sum(sum(idle_ns)) OVER (PARTITION BY trace_id, next_event_id, next_piece)
            AS share
    FROM idle_gap
    GROUP BY trace_id, next_event_id, next_piece, phase
),

part AS (
    SELECT trace_id, device, phase, work_ns, work_ns AS recorded_ns, run_work_ns AS run_ns
    FROM added
    UNION ALL
    SELECT
        a.trace_id, a.device,
        coalesce(g.phase, a.phase) AS phase,
        0 AS work_ns,
        a.gap_ns * coalesce(g.share, 1) AS recorded_ns,
        a.run_gap_ns * coalesce(g.share, 1) AS run_ns
    FROM added AS a
    LEFT JOIN gap_share AS g USING (trace_id, event_id, piece)
    WHERE a.gap_ns > 0 OR a.run_gap_ns > 0
)

SELECT
    t.rank, p.device, p.phase,
    (sum(p.work_ns) / greatest(any_value(c.step_count), 1))::BIGINT AS work_ns,
    (sum(p.recorded_ns) / greatest(any_value(c.step_count), 1))::BIGINT AS recorded_ns,
    (sum(p.run_ns) / greatest(any_value(c.step_count), 1))::BIGINT AS run_ns
FROM part AS p
INNER JOIN counted AS c USING (trace_id)
INNER JOIN trace AS t USING (trace_id)
GROUP BY p.trace_id, t.rank, p.device, p.phase
ORDER BY t.rank NULLS LAST, p.trace_id, p.device, recorded_ns DESC, p.phase
