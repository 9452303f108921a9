-- Covered length of each interval: interval_overlap('pieces', 'cover').
-- The length is the difference of running totals of the union of `cover` at both ends (ASOF joins).
--
-- Kind:     function
-- Params:
--   pieces  VARCHAR  relation with part, id, start_ns, end_ns
--   cover   VARCHAR  relation with part, start_ns, end_ns; may overlap itself
-- Columns:
--   id          BIGINT  id of the piece
--   overlap_ns  BIGINT  covered length, ns
--   ahead_ns    BIGINT  time from the start of the covering interval to the start of the piece, ns; NULL if not covered

CREATE OR REPLACE MACRO interval_overlap(pieces, cover) AS TABLE (
    -- Parts are numbered, because ASOF joins on a struct take three times as long.
    WITH united AS MATERIALIZED (
        SELECT start_ns, end_ns, part, dense_rank() OVER (ORDER BY part) AS number
        FROM interval_union(cover)
    ),

    numbered AS (
        SELECT DISTINCT part, number
        FROM united
    ),

    covered AS MATERIALIZED (
        SELECT
            number, start_ns, end_ns,
            sum(end_ns - start_ns) OVER (
                PARTITION BY number ORDER BY start_ns
                ROWS UNBOUNDED PRECEDING
            )::BIGINT - (end_ns - start_ns) AS before_ns
        FROM united
    ),

    at_start AS (
        SELECT
            numbered.number, piece.id, piece.end_ns,
            CASE WHEN piece.start_ns < covered.end_ns THEN piece.start_ns - covered.start_ns END
                AS ahead_ns,
            coalesce(
                covered.before_ns + least(piece.start_ns, covered.end_ns) - covered.start_ns, 0
            ) AS before_start_ns
        FROM query_table(pieces) AS piece
        LEFT JOIN numbered USING (part)
        ASOF LEFT JOIN covered
            ON numbered.number = covered.number AND piece.start_ns >= covered.start_ns
    )

    SELECT
        at_start.id,
        coalesce(
            covered.before_ns + least(at_start.end_ns, covered.end_ns) - covered.start_ns, 0
        ) - at_start.before_start_ns AS overlap_ns,
        at_start.ahead_ns
    FROM at_start
    ASOF LEFT JOIN covered
        ON at_start.number = covered.number AND at_start.end_ns >= covered.start_ns
);
