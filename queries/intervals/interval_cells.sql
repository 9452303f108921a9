-- Which events may be near some intervals, of many that are not?
-- The time of a part is divided into cells, as long as 1/4096 of what its intervals last together. interval_cells('relation')
-- returns those that intervals touch, each with the cell in front of it. An event that overlaps an interval begins in one
-- of them, at ts_ns // width_ns, or is as long as a cell: who looks at few intervals need not sort all events.
--
-- Kind:   macro
-- Params:
--   relation  VARCHAR  name of a relation with part, start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part      ANY     as given
--   width_ns  BIGINT  length of a cell of the part, ns
--   cell      BIGINT  number of a cell

CREATE OR REPLACE MACRO interval_cells(relation) AS TABLE (
    WITH touched AS (
        SELECT
            part, start_ns, end_ns,
            (sum(end_ns - start_ns) OVER (PARTITION BY part) // 4096 + 1)::BIGINT AS width_ns
        FROM query_table(relation)
    )

    SELECT DISTINCT
        part, width_ns,
        unnest(range(start_ns // width_ns - 1, end_ns // width_ns + 1)) AS cell
    FROM touched
);
