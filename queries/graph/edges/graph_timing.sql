-- Recorded time of each node, and the latest time that does not delay the end of a trace.
-- Same as `graph_replay`, but with recorded times instead of typical weights.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   node BIGINT, at_ns BIGINT, latest_ns BIGINT, edge_id BIGINT

SELECT
    e.edge_id, e.source_node, e.target_node,
    e.weight_ns + e.rest_ns AS weight_ns,
    e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
ORDER BY e.edge_id
