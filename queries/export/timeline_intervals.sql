-- Compute, exposed, and idle intervals that tile each device window: timeline_intervals('walls').
-- The lengths add up to the values of analysis `timeline`.
--
-- Kind:     function
-- Params:
--   walls  VARCHAR  relation with the rows of wall_intervals('work')
-- Columns:
--   trace_id INTEGER, device VARCHAR
--   kind  VARCHAR  compute, exposed_comm, exposed_memcpy, or idle
--   start_ns BIGINT, end_ns BIGINT

CREATE OR REPLACE MACRO timeline_intervals(walls) AS TABLE (
    WITH tile AS (
        SELECT
            {trace_id: trace_id, device: device} AS part,
            time_part(kind) AS label, start_ns, end_ns,
            end_ns - start_ns AS busy_ns
        FROM query_table(walls)
    )

    SELECT part.trace_id, part.device, label AS kind, start_ns, end_ns
    FROM interval_runs('tile')
);
