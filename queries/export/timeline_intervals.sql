-- When was each device at which kind of work, and when idle?
-- timeline_intervals('walls') tiles the window of each device; the lengths of a kind add up to what analysis timeline has.
--
-- Kind:     function
-- Params:
--   walls  VARCHAR  name of a relation with the rows of wall_intervals('work')
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, or cpu
--   kind      VARCHAR  compute, exposed_comm, exposed_memcpy or idle
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns

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
