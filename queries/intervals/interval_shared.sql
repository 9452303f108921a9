-- When do several intervals of a part run at once?
-- interval_shared('relation') returns stretches, which may overlap, whose union is that time: of each interval what it has in
-- common with those that started before it. One sort per part.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  name of a relation with part, id, start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part      VARCHAR  as given
--   start_ns  BIGINT   start of a stretch, ns
--   end_ns    BIGINT   its end, ns

CREATE OR REPLACE MACRO interval_shared(relation) AS TABLE (
    WITH followed AS (
        SELECT
            part, start_ns, end_ns,
            max(end_ns) OVER (
                PARTITION BY part ORDER BY start_ns, id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before_ns
        FROM query_table(relation)
    )

    SELECT part, start_ns, least(end_ns, before_ns) AS end_ns
    FROM followed
    WHERE before_ns > start_ns AND end_ns > start_ns
);
