-- How many intervals of each part are open, moment by moment?
-- interval_depth('relation') returns the pieces between the starts and ends of the intervals, and their lengths add up
-- to the time between the first start and the last end. One that ends where another starts is open with it for a
-- moment: a piece of no length. One sort per part.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  name of a relation with part, start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part    ANY     as given
--   at_ns   BIGINT  start of the piece, ns
--   depth   BIGINT  intervals that are open in it
--   dur_ns  BIGINT  its length, ns

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
        (sum(step) OVER moments)::BIGINT AS depth,
        coalesce(lead(at_ns) OVER moments - at_ns, 0) AS dur_ns
    FROM boundary
    WINDOW
        moments AS (PARTITION BY part ORDER BY at_ns, step DESC ROWS UNBOUNDED PRECEDING)
);
