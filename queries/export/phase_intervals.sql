-- Phase intervals that tile each device window: phase_intervals('walls', 'work').
-- Idle time has the phase from `idle_gap`, so lengths add up to wall_ns and idle_ns of analysis `phases`.
--
-- Kind:     function
-- Params:
--   walls  VARCHAR  relation with the rows of wall_intervals('work')
--   work   VARCHAR  relation with the rows of attributed_events
-- Columns:
--   trace_id INTEGER, device VARCHAR, phase VARCHAR, start_ns BIGINT, end_ns BIGINT
--   wall_ns  BIGINT  busy part of the interval, ns

CREATE OR REPLACE MACRO phase_intervals(walls, work) AS TABLE (
    WITH tile AS (
        SELECT
            {trace_id: w.trace_id, device: w.device} AS part,
            p.phase AS label, w.start_ns, w.end_ns,
            w.end_ns - w.start_ns AS busy_ns
        FROM query_table(walls) AS w
        INNER JOIN query_table(work) AS p USING (trace_id, event_id, piece)
        UNION ALL
        SELECT
            {trace_id: g.trace_id, device: g.device} AS part,
            g.phase AS label, g.start_ns, g.end_ns,
            0 AS busy_ns
        FROM idle_gap AS g
        SEMI JOIN query_table(work) AS p
            ON g.trace_id = p.trace_id AND g.next_event_id = p.event_id AND g.next_piece = p.piece
    )

    SELECT part.trace_id, part.device, label AS phase, start_ns, end_ns, busy_ns AS wall_ns
    FROM interval_runs('tile')
);
