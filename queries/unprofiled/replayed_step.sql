-- What does a step of each trace take as recorded, and in each replay of table plain_moment?
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id     INTEGER -> trace  the trace
--   step_count   BIGINT            marked steps with work; 0: the window from the first work to the last is taken for one
--   recorded_ns  DOUBLE            the step as recorded, ns
--   replayed_ns  DOUBLE            the same, replayed, ns
--   plain_ns     DOUBLE            without the profiler, ns
--   low_ns       DOUBLE            at least, ns
--   high_ns      DOUBLE            at most, ns

WITH moment AS (
    SELECT trace_id, kind, step, max(at_ns) AS at_ns
    FROM step_moment
    GROUP BY trace_id, kind, step
),

recorded AS (
    SELECT
        trace_id,
        count(step) FILTER (WHERE kind = 'end') AS step_count,
        steady_step(
            any_value(at_ns) FILTER (WHERE kind = 'begin'),
            list(at_ns ORDER BY step) FILTER (WHERE kind <> 'end' AND step IS NOT NULL),
            list(at_ns ORDER BY step) FILTER (WHERE kind = 'end')
        ) AS recorded_ns
    FROM moment
    GROUP BY trace_id
)

SELECT
    r.trace_id, r.step_count, r.recorded_ns,
    max(m.step_ns) FILTER (WHERE m.replay = 0) AS replayed_ns,
    max(m.step_ns) FILTER (WHERE m.replay = 1) AS plain_ns,
    max(m.step_ns) FILTER (WHERE m.replay = 2) AS low_ns,
    max(m.step_ns) FILTER (WHERE m.replay = 3) AS high_ns
FROM recorded AS r
INNER JOIN moment_steps('plain_moment') AS m USING (trace_id)
GROUP BY r.trace_id, r.step_count, r.recorded_ns
ORDER BY r.trace_id
