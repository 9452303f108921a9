-- How long are the phases of a step without the profiler?
-- Of each accelerator: what its work takes, and the time in which it is idle before work of that phase. In the recording, and in the replay
-- of the run (analysis unprofiled says on what that rests). Without marked steps it is all of the window.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: trace, graph_span, attributed_events, step_moment, run_replay, interval_neighbours
-- Columns:
--   rank         INTEGER  global rank
--   device       VARCHAR  number of the device
--   phase        VARCHAR  phase
--   work_ns      BIGINT   of a step, in which work of the phase runs, ns
--   recorded_ns  BIGINT   of a recorded step, that and the idle time before it, ns
--   run_ns       BIGINT   the same of a step without the profiler, ns; NULL where that is not known
-- Invariant: work_ns <= recorded_ns
-- Empty: device_events: no work of a device is recorded

WITH counted AS (
    SELECT trace_id, count(DISTINCT step) AS step_count, min(at_ns) AS begin_ns
    FROM step_moment
    GROUP BY trace_id
),

work AS (
    SELECT
        s.trace_id, s.device, s.span_id, a.phase, s.start_ns, s.end_ns,
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
)

SELECT
    t.rank, e.device, e.phase,
    (
        sum(greatest(e.end_ns - greatest(e.start_ns, coalesce(e.before_ns, e.start_ns)), 0))
        / greatest(any_value(c.step_count), 1)
    )::BIGINT AS work_ns,
    (
        sum(greatest(e.end_ns - coalesce(e.before_ns, e.start_ns), 0))
        / greatest(any_value(c.step_count), 1)
    )::BIGINT AS recorded_ns,
    (
        sum(
            CASE
                WHEN e.run_end_ns IS NOT NULL
                    THEN greatest(e.run_end_ns - coalesce(e.run_before_ns, e.run_start_ns), 0)
            END
        )
        / greatest(any_value(c.step_count), 1)
    )::BIGINT AS run_ns
FROM ended AS e
INNER JOIN counted AS c USING (trace_id)
INNER JOIN trace AS t USING (trace_id)
GROUP BY e.trace_id, t.rank, e.device, e.phase
ORDER BY t.rank NULLS LAST, e.trace_id, e.device, recorded_ns DESC, e.phase
