-- Union of the intervals of each partition, as disjoint intervals: interval_union('relation').
-- Intervals that touch are joined. Cost: one sort per partition.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  relation with part VARCHAR, start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part      VARCHAR
--   start_ns  BIGINT  start of a piece of the union, ns
--   end_ns    BIGINT

CREATE OR REPLACE MACRO interval_union(relation) AS TABLE (
    WITH marked AS (
        SELECT
            part, start_ns, end_ns,
            coalesce(
                start_ns > max(end_ns) OVER (
                    PARTITION BY part ORDER BY start_ns, end_ns
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ),
                TRUE
            ) AS is_first
        FROM query_table(relation)
    ),

    numbered AS (
        SELECT
            part, start_ns, end_ns,
            sum(is_first::INTEGER) OVER (
                PARTITION BY part ORDER BY start_ns, end_ns
                ROWS UNBOUNDED PRECEDING
            ) AS island
        FROM marked
    )

    SELECT part, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM numbered
    GROUP BY part, island
);
