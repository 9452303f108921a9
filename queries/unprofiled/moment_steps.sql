-- What does a step of each trace take in each of five replays?
-- Of a trace without marked steps it is the window.
--
-- Kind:     function
-- Access:   private
-- Params:
--   moments  VARCHAR  name of a relation with columns moment (as in step_moment) and ns_0 to ns_4
-- Columns:
--   trace_id  INTEGER -> trace  the trace
--   replay    BIGINT            number of the replay, from 0
--   step_ns   DOUBLE            the step, ns

CREATE OR REPLACE MACRO moment_steps(moments) AS TABLE (
    WITH named AS (
        SELECT DISTINCT trace_id, kind, step, moment
        FROM step_moment
    ),

    came AS (
        SELECT
            n.trace_id, n.kind, n.step,
            unnest([0, 1, 2, 3, 4]) AS replay,
            unnest([m.ns_0, m.ns_1, m.ns_2, m.ns_3, m.ns_4]) AS at_ns
        FROM named AS n
        INNER JOIN query_table(moments) AS m USING (moment)
    )

    SELECT
        trace_id, replay,
        steady_step(
            any_value(at_ns) FILTER (WHERE kind = 'begin'),
            list(at_ns ORDER BY step) FILTER (WHERE kind <> 'end' AND step IS NOT NULL),
            list(at_ns ORDER BY step) FILTER (WHERE kind = 'end')
        ) AS step_ns
    FROM came
    GROUP BY trace_id, replay
);
