-- Interval in the topmost layer over time, per partition: interval_layers('relation').
-- Intervals of a layer are disjoint. The layer with the lowest number is on top. The rows tile the time from the first
-- start to the last end.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  relation with part, layer (1, 2, or 3), id BIGINT (not 0), start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part      ANY
--   start_ns  BIGINT  start of the piece, ns
--   end_ns    BIGINT
--   id        BIGINT  topmost interval; NULL if none is open

CREATE OR REPLACE MACRO interval_layers(relation) AS TABLE (
    -- ID 0 means that no interval of the layer is open.
    WITH boundary AS (
        SELECT part, layer, start_ns AS at_ns, id
        FROM query_table(relation)
        WHERE start_ns < end_ns
        UNION ALL
        SELECT part, layer, end_ns AS at_ns, 0 AS id
        FROM query_table(relation)
        WHERE start_ns < end_ns
    ),

    time_point AS (
        SELECT
            part, at_ns AS start_ns,
            lead(at_ns) OVER time_points AS end_ns,
            any_value(if(layer = 1, id, NULL)) OVER so_far AS first_id,
            any_value(if(layer = 2, id, NULL)) OVER so_far AS second_id,
            any_value(if(layer = 3, id, NULL)) OVER so_far AS third_id
        FROM boundary
        WINDOW
            time_points AS (PARTITION BY part ORDER BY at_ns, id <> 0, layer),
            so_far AS (
                PARTITION BY part ORDER BY at_ns DESC, id <> 0 DESC, layer DESC
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            )
    )

    SELECT
        part, start_ns, end_ns,
        coalesce(nullif(first_id, 0), nullif(second_id, 0), nullif(third_id, 0)) AS id
    FROM time_point
    WHERE start_ns < end_ns
);
