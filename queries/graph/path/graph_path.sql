-- Critical path: the edges that determined each start, from the end of each trace back to its origin.
-- Place 0 is the last edge. This statement selects the edges, and native/passes/replay.c walks the path.
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
