-- Pieces of each interval outside nested intervals (self time): interval_self('relation').
-- Intervals that overlap without nesting are split as if they were a call stack. Pieces are disjoint and add up to the
-- union. Cost: one sort per partition.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  relation with part, id, start_ns BIGINT, end_ns BIGINT; no empty intervals
-- Columns:
--   part      ANY
--   id        ANY     interval that owns the time
--   start_ns  BIGINT  start of the piece, ns
--   end_ns    BIGINT

CREATE OR REPLACE MACRO interval_self(relation) AS TABLE (
    WITH boundary AS (
        SELECT part, id, start_ns AS at_ns, 1 AS step, start_ns - end_ns AS tie
        FROM query_table(relation)
        UNION ALL
        SELECT part, id, end_ns AS at_ns, -1 AS step, end_ns - start_ns AS tie
        FROM query_table(relation)
    ),

    swept AS (
        SELECT
            *,
            sum(step) OVER time_points AS depth,
            lead(at_ns) OVER time_points AS until_ns,
            row_number() OVER time_points AS position
        FROM boundary
        WINDOW time_points AS (PARTITION BY part ORDER BY at_ns, step, tie, id)
    ),

    owned AS (
        SELECT
            part, at_ns, until_ns, depth,
            last_value(CASE WHEN step = 1 THEN id END IGNORE NULLS) OVER level AS id
        FROM swept
        WINDOW level AS (PARTITION BY part, depth ORDER BY position ROWS UNBOUNDED PRECEDING)
    )

    SELECT part, id, at_ns AS start_ns, until_ns AS end_ns
    FROM owned
    WHERE depth > 0 AND until_ns > at_ns
);
