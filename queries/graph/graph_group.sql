-- Edges of each group of work, for the 40 groups per dimension with the most time on the critical path.
-- Groups that are not on the path are omitted because removing them saves no time.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   edge_id BIGINT -> graph_edge, group_id BIGINT
--   dimension  VARCHAR  kernel, module, class, phase, or collective
--   value VARCHAR, span_id BIGINT, path_ns BIGINT

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

on_path AS (
    SELECT
        n.dimension, n.value,
        sum(e.target_ns - e.source_ns)::BIGINT AS path_ns,
        row_number() OVER (ORDER BY n.dimension, path_ns DESC, n.value) - 1 AS group_id
    FROM graph_path AS p
    INNER JOIN graph_edge AS e USING (edge_id)
    INNER JOIN named AS n USING (edge_id)
    WHERE n.value IS NOT NULL
    GROUP BY n.dimension, n.value
    QUALIFY row_number() OVER (PARTITION BY n.dimension ORDER BY path_ns DESC, n.value) <= 40
)

SELECT n.edge_id, p.group_id, p.dimension, p.value, n.span_id, p.path_ns
FROM named AS n
INNER JOIN on_path AS p USING (dimension, value)
ORDER BY p.group_id, n.edge_id
