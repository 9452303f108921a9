-- Which interval is on top at each moment, when intervals lie in layers?
-- interval_layers('relation') tiles the time of each part between its first start and its last end. The intervals of one
-- layer are disjoint; a moment belongs to the open interval of the lowest layer. There are three layers.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  name of a relation with part, layer (1, 2 or 3), id BIGINT (not 0), start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part      ANY     as given
--   start_ns  BIGINT  start of the piece, ns
--   end_ns    BIGINT  its end, ns
--   id        BIGINT  of the interval that is on top; NULL where none is open

CREATE OR REPLACE MACRO interval_layers(relation) AS TABLE (
    -- In a layer there is nothing between an end and the next start: 0 stands for it.
    WITH boundary AS (
        SELECT part, layer, start_ns AS at_ns, id
        FROM query_table(relation)
        WHERE start_ns < end_ns
        UNION ALL
        SELECT part, layer, end_ns AS at_ns, 0 AS id
        FROM query_table(relation)
        WHERE start_ns < end_ns
    ),

    moment AS (
        SELECT
            part, at_ns AS start_ns,
            lead(at_ns) OVER moments AS end_ns,
            last_value(if(layer = 1, id, NULL) IGNORE NULLS) OVER moments AS first_id,
            last_value(if(layer = 2, id, NULL) IGNORE NULLS) OVER moments AS second_id,
            last_value(if(layer = 3, id, NULL) IGNORE NULLS) OVER moments AS third_id
        FROM boundary
        WINDOW
            moments AS (PARTITION BY part ORDER BY at_ns, id <> 0 ROWS UNBOUNDED PRECEDING)
    )

    SELECT
        part, start_ns, end_ns,
        coalesce(nullif(first_id, 0), nullif(second_id, 0), nullif(third_id, 0)) AS id
    FROM moment
    WHERE start_ns < end_ns
);
