-- Pairs of overlapping intervals of two relations: interval_crossings('lefts', 'rights').
-- The intervals of `rights` are disjoint within a partition, so the intervals that an interval of `lefts` crosses are
-- consecutive. Looking up the first and the last of them makes the cost proportional to the result.
--
-- Kind:   function
-- Params:
--   lefts   VARCHAR  relation with part, id, start_ns, end_ns
--   rights  VARCHAR  relation with part, id, start_ns, end_ns; disjoint within a partition
-- Columns:
--   left_id   BIGINT  id in lefts
--   right_id  BIGINT  id in rights of an interval that overlaps the left one

CREATE OR REPLACE MACRO interval_crossings(lefts, rights) AS TABLE (
    WITH numbered AS MATERIALIZED (
        SELECT
            part, id, start_ns, end_ns,
            row_number() OVER (PARTITION BY part ORDER BY start_ns, end_ns) AS place
        FROM query_table(rights)
        WHERE start_ns < end_ns
    ),

    crossed AS (
        SELECT l.part, l.id, unnest(range(f.place, b.place + 1)) AS place
        FROM query_table(lefts) AS l
        ASOF INNER JOIN numbered AS f ON l.part = f.part AND l.start_ns < f.end_ns
        ASOF INNER JOIN numbered AS b ON l.part = b.part AND l.end_ns > b.start_ns
    )

    SELECT crossed.id AS left_id, numbered.id AS right_id
    FROM crossed
    INNER JOIN numbered USING (part, place)
);
