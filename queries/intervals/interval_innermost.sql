-- Innermost open span at each of the given times: interval_innermost('time_points', 'spans').
-- The innermost span is the one that started last, or the shortest of equal starts. Spans may overlap without nesting;
-- times without an open span have no row. Two ASOF joins find the range of numbered times inside each span. A segment
-- tree (aligned blocks of 1, 2, 4, … numbers) covers each range with at most two blocks per length. The cost is one
-- sort at any nesting depth.
--
-- Kind:   function
-- Params:
--   time_points  VARCHAR  relation with part, id, at_ns
--   spans    VARCHAR  relation with part, id, start_ns, end_ns
-- Columns:
--   id       BIGINT  id of the time
--   span_id  BIGINT  innermost open span

CREATE OR REPLACE MACRO interval_innermost(time_points, spans) AS TABLE (
    -- Parts and spans are numbered, because joins and maxima of structs take twice as long.
    WITH part_number AS MATERIALIZED (
        SELECT part, row_number() OVER () AS thread
        FROM query_table(time_points)
        GROUP BY part
    ),

    numbered AS MATERIALIZED (
        SELECT
            part_number.thread, time_point.at_ns,
            row_number() OVER (PARTITION BY part_number.thread ORDER BY time_point.at_ns) AS number
        FROM query_table(time_points) AS time_point
        INNER JOIN part_number USING (part)
        GROUP BY part_number.thread, time_point.at_ns
    ),

    -- The innermost of several open spans has the highest place.
    placed AS MATERIALIZED (
        SELECT
            part_number.thread, span.id, span.start_ns, span.end_ns,
            row_number() OVER (ORDER BY span.start_ns, span.end_ns DESC, span.id) AS place
        FROM query_table(spans) AS span
        INNER JOIN part_number USING (part)
    ),

    entered AS (
        SELECT span.thread, span.place, span.end_ns, time_point.number AS first_number
        FROM placed AS span
        ASOF INNER JOIN numbered AS time_point
            ON span.thread = time_point.thread AND span.start_ns <= time_point.at_ns
        WHERE time_point.at_ns < span.end_ns
    ),

    bounded AS (
        SELECT
            entered.thread, entered.place, entered.first_number,
            time_point.number + 1 AS behind_number
        FROM entered
        ASOF INNER JOIN numbered AS time_point
            ON entered.thread = time_point.thread AND entered.end_ns > time_point.at_ns
    ),

    -- Part of the range that remains for each block length.
    levelled AS (
        SELECT
            thread, place, first_number, behind_number,
            unnest(range(length(bin(behind_number - first_number)))) AS level
        FROM bounded
    ),

    left_over AS (
        SELECT
            thread, place, level,
            (first_number + (1::BIGINT << level) - 1) >> level AS first_block,
            behind_number >> level AS behind_block
        FROM levelled
    ),

    -- An odd-numbered block at either end of the range is not part of a longer block in it.
    noted AS (
        SELECT
            thread, place, level,
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
        SELECT thread, level, block, max(place) AS place
        FROM noted
        GROUP BY thread, level, block
    ),

    used AS (
        SELECT DISTINCT thread, level
        FROM innermost_of_block
    ),

    looked_at AS (
        SELECT numbered.thread, numbered.number, used.level, numbered.number >> used.level AS block
        FROM numbered
        INNER JOIN used USING (thread)
    ),

    innermost AS (
        SELECT looked_at.thread, looked_at.number, max(block.place) AS place
        FROM looked_at
        INNER JOIN innermost_of_block AS block USING (thread, level, block)
        GROUP BY looked_at.thread, looked_at.number
    )

    SELECT time_point.id, placed.id AS span_id
    FROM query_table(time_points) AS time_point
    INNER JOIN part_number USING (part)
    INNER JOIN numbered USING (thread, at_ns)
    INNER JOIN innermost USING (thread, number)
    INNER JOIN placed USING (place)
);
