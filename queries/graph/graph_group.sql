-- Groups of work with the most time on the critical path: the top 40 of each dimension.
-- Groups off the path are omitted because removing them gains nothing.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   group_id   BIGINT
--   dimension  VARCHAR  kernel, module, class, phase, or collective
--   value VARCHAR, work_count BIGINT, work_ns BIGINT, path_ns BIGINT

WITH named AS (
    SELECT
        edge_id, span_id,
        unnest([
            {dimension: 'kernel', value: if(work_kind = 'comm', NULL, name)},
            {dimension: 'module', value: module},
            {dimension: 'class', value: class},
            {dimension: 'phase', value: phase},
            {dimension: 'collective', value: if(work_kind = 'comm', name, NULL)}
        ], recursive := TRUE)
    FROM edge_fact
    WHERE part = 'work'
),

total AS (
    SELECT
        n.dimension, n.value,
        count(DISTINCT n.span_id) AS work_count,
        sum(e.weight_ns + e.rest_ns)::BIGINT AS work_ns
    FROM named AS n
    INNER JOIN graph_edge AS e USING (edge_id)
    WHERE n.value IS NOT NULL
    GROUP BY n.dimension, n.value
),

on_path AS (
    SELECT n.dimension, n.value, sum(e.target_ns - e.source_ns)::BIGINT AS path_ns
    FROM graph_path AS p
    INNER JOIN graph_edge AS e USING (edge_id)
    INNER JOIN named AS n USING (edge_id)
    WHERE n.value IS NOT NULL
    GROUP BY n.dimension, n.value
)

SELECT
    row_number() OVER (ORDER BY t.dimension, p.path_ns DESC, t.value) - 1 AS group_id,
    t.dimension, t.value, t.work_count, t.work_ns, p.path_ns
FROM total AS t
INNER JOIN on_path AS p USING (dimension, value)
QUALIFY
    row_number() OVER (PARTITION BY t.dimension ORDER BY p.path_ns DESC, t.value) <= 40
ORDER BY group_id
