-- Binding edges from the end of each trace back to the origin.
-- This statement provides the edges. Native code walks the path, from place 0 at the end.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id BIGINT, place BIGINT, edge_id BIGINT

SELECT e.edge_id, e.source_node, e.target_node, n.trace_id::BIGINT AS end_of
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
WHERE e.is_binding
ORDER BY e.edge_id
