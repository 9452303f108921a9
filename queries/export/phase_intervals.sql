-- When was each device in which phase?
-- phase_intervals('walls', 'work') tiles the window of each device. Idle time has the phase that table idle_gap
-- says, as in analysis phases: the lengths of a phase add up to its wall_ns and idle_ns there.
--
-- Kind:     function
-- Params:
--   walls  VARCHAR  name of a relation with the rows of wall_intervals('work')
--   work   VARCHAR  name of a relation with the rows of attributed_events
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, or cpu
--   phase     VARCHAR  the phase
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns
--   wall_ns   BIGINT   of its length, the time in which the device was busy, ns

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
