-- Which events may overlap some intervals, of many that cannot?
-- events_near('relation') returns the events that begin where an interval is, or that are long; all that overlap one are
-- among them, and some that do not. Time is divided into cells, 1/4096 of what the intervals of a trace last together: an
-- event that overlaps an interval begins in a cell that the interval touches, in the cell in front of these, or is as long
-- as a cell. Where few gaps are looked at, few events need be sorted.
--
-- Kind:   function
-- Access: private
-- Params:
--   relation  VARCHAR  name of a relation with trace_id, start_ns BIGINT, end_ns BIGINT
-- Columns:
--   trace_id  INTEGER -> trace  the trace
--   event_id  BIGINT -> event   the event; the other columns of view event follow

CREATE OR REPLACE MACRO events_near(relation) AS TABLE (
    WITH interval_of AS (
        SELECT
            trace_id, start_ns, end_ns,
            (sum(end_ns - start_ns) OVER (PARTITION BY trace_id) // 4096 + 1)::BIGINT AS width_ns
        FROM query_table(relation)
    ),

    touched AS MATERIALIZED (
        SELECT DISTINCT
            trace_id, width_ns,
            unnest(range(start_ns // width_ns - 1, end_ns // width_ns + 1)) AS cell
        FROM interval_of
    ),

    width AS (SELECT DISTINCT trace_id, width_ns FROM touched)

    SELECT e.*
    FROM event AS e
    INNER JOIN width AS w ON e.trace_id = w.trace_id
    LEFT JOIN touched AS t ON w.trace_id = t.trace_id AND e.ts_ns // w.width_ns = t.cell
    WHERE e.dur_ns >= w.width_ns OR t.cell IS NOT NULL
);
