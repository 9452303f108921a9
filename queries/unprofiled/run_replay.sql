-- Replayed time of each node without the profiler: `graph_replay` with the weights of `run_weight`.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   node BIGINT, at_ns BIGINT, latest_ns BIGINT, edge_id BIGINT

SELECT
    e.edge_id, e.source_node, e.target_node,
    w.usual_ns AS weight_ns,
    e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end
FROM graph_edge AS e
INNER JOIN run_weight AS w USING (edge_id)
LEFT JOIN graph_end AS n ON e.target_node = n.node
ORDER BY e.edge_id
