-- Time saved if all work of a group took no time.
-- Computed by a replay with recorded times; this statement provides the edges, followed by the members of each group.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   group_id  BIGINT
--   gain_ns  BIGINT  how much earlier the last work of all ranks ends, ns

WITH member AS (
    SELECT f.edge_id, g.group_id
    FROM edge_fact AS f
    INNER JOIN graph_group AS g
        ON
            g.value = CASE g.dimension
                WHEN 'kernel' THEN if(f.work_kind = 'comm', NULL, f.name)
                WHEN 'module' THEN f.module
                WHEN 'class' THEN f.class
                WHEN 'phase' THEN f.phase
                ELSE if(f.work_kind = 'comm', f.name, NULL)
            END
    WHERE f.part = 'work'
)

SELECT
    e.edge_id, e.source_node, e.target_node,
    e.weight_ns + e.rest_ns AS weight_ns,
    e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end,
    NULL::BIGINT AS group_id
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
UNION ALL
SELECT
    edge_id, NULL AS source_node, NULL AS target_node, NULL AS weight_ns, NULL AS target_ns,
    NULL AS is_end, group_id
FROM member
ORDER BY group_id NULLS FIRST, edge_id
