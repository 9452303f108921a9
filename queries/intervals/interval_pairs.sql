-- Overlap of each pair of intervals of two relations: interval_pairs('lefts', 'rights').
-- The intervals of each relation are disjoint within a partition, so one sweep over all boundaries finds every pair.
--
-- Kind:   function
-- Params:
--   lefts   VARCHAR  relation with part, id, start_ns, end_ns; disjoint within a partition
--   rights  VARCHAR  relation with part, id, start_ns, end_ns; disjoint within a partition
-- Columns:
--   left_id     BIGINT  id in lefts
--   right_id    BIGINT  id in rights
--   overlap_ns  BIGINT  length of the overlap, ns

CREATE OR REPLACE MACRO interval_pairs(lefts, rights) AS TABLE (
    -- -1 means that no interval is open.
    WITH boundary AS (
        SELECT part, start_ns AS at_ns, TRUE AS is_start, id AS left_id, NULL::BIGINT AS right_id
        FROM query_table(lefts)
        WHERE start_ns < end_ns
        UNION ALL
        SELECT part, end_ns AS at_ns, FALSE AS is_start, -1 AS left_id, NULL AS right_id
        FROM query_table(lefts)
        WHERE start_ns < end_ns
        UNION ALL
        SELECT part, start_ns AS at_ns, TRUE AS is_start, NULL AS left_id, id AS right_id
        FROM query_table(rights)
        WHERE start_ns < end_ns
        UNION ALL
        SELECT part, end_ns AS at_ns, FALSE AS is_start, NULL AS left_id, -1 AS right_id
        FROM query_table(rights)
        WHERE start_ns < end_ns
    ),

    swept AS (
        SELECT
            at_ns,
            lead(at_ns) OVER sweep AS until_ns,
            any_value(left_id) OVER so_far AS left_id,
            any_value(right_id) OVER so_far AS right_id
        FROM boundary
        WINDOW
            sweep AS (PARTITION BY part ORDER BY at_ns, is_start, left_id IS NULL),
            so_far AS (
                PARTITION BY part ORDER BY at_ns DESC, is_start DESC, left_id IS NULL DESC
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            )
    )

    SELECT left_id, right_id, sum(until_ns - at_ns)::BIGINT AS overlap_ns
    FROM swept
    WHERE left_id >= 0 AND right_id >= 0 AND until_ns > at_ns
    GROUP BY left_id, right_id
);
