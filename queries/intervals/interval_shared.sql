-- Time covered by at least two intervals of a partition: interval_shared('relation').
-- Each row is the part of an interval that intervals with an earlier start cover. The union of the rows is that time.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  relation with part, id, start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part      VARCHAR
--   start_ns  BIGINT  start of the overlap, ns
--   end_ns    BIGINT

CREATE OR REPLACE MACRO interval_shared(relation) AS TABLE (
    WITH followed AS (
        SELECT
            part, start_ns, end_ns,
            max(end_ns) OVER (
                PARTITION BY part ORDER BY start_ns, id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before_ns
        FROM query_table(relation)
    )

    SELECT part, start_ns, least(end_ns, before_ns) AS end_ns
    FROM followed
    WHERE before_ns > start_ns AND end_ns > start_ns
);
