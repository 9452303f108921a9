-- Replayed time of each node, with typical weights and without unexplained time.
-- This statement selects the edges, and native/passes/replay.c replays them. latest_ns is NULL for nodes that do not affect
-- the end of any trace.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   node BIGINT, at_ns BIGINT, latest_ns BIGINT, edge_id BIGINT

SELECT
    e.edge_id, e.source_node, e.target_node, e.weight_ns, e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
ORDER BY e.edge_id
