-- Which span is the innermost that is open at each moment?
-- interval_innermost('moments', 'spans') returns one row for each moment at which a span of its part is open: the one
-- that started last, of equals the shortest. The spans may nest, and need not nest cleanly. The moments inside a span
-- are a range of the numbered moments, found by two ASOF joins; so the cost is that of sorting, and one row for each
-- span that is open at a moment.
--
-- Kind:   macro
-- Params:
--   moments  VARCHAR  name of a relation with part, id, at_ns
--   spans    VARCHAR  name of a relation with part, id, start_ns, end_ns
-- Columns:
--   id       BIGINT  of the moment
--   span_id  BIGINT  the innermost open span

CREATE OR REPLACE MACRO interval_innermost(moments, spans) AS TABLE (
    WITH numbered AS (
        SELECT
            part,
            at_ns,
            row_number() OVER (PARTITION BY part ORDER BY at_ns) AS number
        FROM query_table(moments)
        GROUP BY part, at_ns
    ),

    entered AS (
        SELECT
            span.part,
            span.id,
            span.start_ns,
            span.end_ns,
            moment.number AS first_number
        FROM query_table(spans) AS span
        ASOF INNER JOIN numbered AS moment
            ON span.part = moment.part AND span.start_ns <= moment.at_ns
        WHERE moment.at_ns < span.end_ns
    ),

    bounded AS (
        SELECT
            entered.part,
            entered.id,
            entered.start_ns,
            entered.end_ns,
            entered.first_number,
            moment.number AS last_number
        FROM entered
        ASOF INNER JOIN numbered AS moment
            ON entered.part = moment.part AND entered.end_ns > moment.at_ns
    ),

    opened AS (
        SELECT
            part,
            id,
            start_ns,
            end_ns,
            unnest(range(first_number, last_number + 1)) AS number
        FROM bounded
    ),

    innermost AS (
        SELECT
            part,
            number,
            arg_max(id, (start_ns, -end_ns, id)) AS span_id
        FROM opened
        GROUP BY part, number
    )

    SELECT
        moment.id,
        innermost.span_id
    FROM query_table(moments) AS moment
    INNER JOIN numbered ON moment.part = numbered.part AND moment.at_ns = numbered.at_ns
    INNER JOIN innermost ON numbered.part = innermost.part AND numbered.number = innermost.number
);
