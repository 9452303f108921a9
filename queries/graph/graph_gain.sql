-- Time saved if all work of a group took no time, for each group of graph_group.
-- native/passes/replay.c computes the gains with recorded times. This statement selects its input: the edges, followed by the
-- members of each group.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   group_id BIGINT, gain_ns BIGINT

SELECT
    e.edge_id, e.source_node, e.target_node,
    e.weight_ns + e.rest_ns AS weight_ns,
    e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end,
    NULL::BIGINT AS group_id
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
UNION ALL BY NAME
SELECT edge_id, group_id
FROM graph_group
ORDER BY group_id NULLS FIRST, edge_id
