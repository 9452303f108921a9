-- Number of open intervals over time, per partition: interval_depth('relation').
-- Each row is the time from one boundary to the next. Where two intervals touch, a zero-length row counts both as open.
-- Cost: one sort per partition.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  relation with part, start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part   ANY
--   at_ns  BIGINT  start of the piece, ns
--   depth  BIGINT  number of open intervals
--   dur_ns  BIGINT

CREATE OR REPLACE MACRO interval_depth(relation) AS TABLE (
    WITH boundary AS (
        SELECT part, start_ns AS at_ns, 1 AS step
        FROM query_table(relation)
        UNION ALL
        SELECT part, end_ns AS at_ns, -1 AS step
        FROM query_table(relation)
    )

    SELECT
        part, at_ns,
        (sum(step) OVER time_points)::BIGINT AS depth,
        coalesce(lead(at_ns) OVER time_points - at_ns, 0) AS dur_ns
    FROM boundary
    WINDOW
        time_points AS (PARTITION BY part ORDER BY at_ns, step DESC ROWS UNBOUNDED PRECEDING)
);
