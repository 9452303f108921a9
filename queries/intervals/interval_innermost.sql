-- Which span is the innermost that is open at each moment?
-- interval_innermost('moments', 'spans') returns one row for each moment at which a span of its part is open: the one
-- that started last, of equals the shortest. The spans may nest, and need not nest cleanly.
-- The moments inside a span are a range of the numbered moments, found by two ASOF joins. Blocks of 1, 2, 4, 8, …
-- numbers, each beginning at a multiple of its length, put such a range together from two of each length at the most
-- (a segment tree). So a span is noted at a few blocks and a moment looks at one of each length: the cost is that of
-- sorting, however deep the spans nest.
--
-- Kind:   function
-- Params:
--   moments  VARCHAR  name of a relation with part, id, at_ns
--   spans    VARCHAR  name of a relation with part, id, start_ns, end_ns
-- Columns:
--   id       BIGINT  of the moment
--   span_id  BIGINT  the innermost open span

CREATE OR REPLACE MACRO interval_innermost(moments, spans) AS TABLE (
    WITH numbered AS (
        SELECT part, at_ns, row_number() OVER (PARTITION BY part ORDER BY at_ns) AS number
        FROM query_table(moments)
        GROUP BY part, at_ns
    ),

    entered AS (
        SELECT span.part, span.id, span.start_ns, span.end_ns, moment.number AS first_number
        FROM query_table(spans) AS span
        ASOF INNER JOIN numbered AS moment
            ON span.part = moment.part AND span.start_ns <= moment.at_ns
        WHERE moment.at_ns < span.end_ns
    ),

    bounded AS (
        SELECT
            entered.part,
            (entered.start_ns, -entered.end_ns, entered.id) AS place,
            entered.first_number,
            moment.number + 1 AS behind_number
        FROM entered
        ASOF INNER JOIN numbered AS moment
            ON entered.part = moment.part AND entered.end_ns > moment.at_ns
    ),

    -- What is left of the range at each length, in blocks of that length.
    levelled AS (
        SELECT
            part, place, first_number, behind_number,
            unnest(range(length(bin(behind_number - first_number)))) AS level
        FROM bounded
    ),

    left_over AS (
        SELECT
            part, place, level,
            (first_number + (1::BIGINT << level) - 1) >> level AS first_block,
            behind_number >> level AS behind_block
        FROM levelled
    ),

    -- An odd block at either end belongs to no longer block of the range.
    noted AS (
        SELECT
            part, place, level,
            unnest(
                CASE
                    WHEN first_block % 2 = 1 AND behind_block % 2 = 1
                        THEN [first_block, behind_block - 1]
                    WHEN first_block % 2 = 1 THEN [first_block]
                    WHEN behind_block % 2 = 1 THEN [behind_block - 1]
                END
            ) AS block
        FROM left_over
        WHERE first_block < behind_block
    ),

    innermost_of_block AS (
        SELECT part, level, block, max(place) AS place
        FROM noted
        GROUP BY part, level, block
    ),

    used AS (
        SELECT DISTINCT part, level
        FROM innermost_of_block
    ),

    looked_at AS (
        SELECT numbered.part, numbered.number, used.level, numbered.number >> used.level AS block
        FROM numbered
        INNER JOIN used USING (part)
    ),

    innermost AS (
        SELECT looked_at.part, looked_at.number, max(found.place)[3] AS span_id
        FROM looked_at
        INNER JOIN innermost_of_block AS found USING (part, level, block)
        GROUP BY looked_at.part, looked_at.number
    )

    SELECT moment.id, innermost.span_id
    FROM query_table(moments) AS moment
    INNER JOIN numbered USING (part, at_ns)
    INNER JOIN innermost USING (part, number)
);
