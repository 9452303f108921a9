-- Which edges lead to the end of each trace, one behind the other?
-- From the end of its last work back over the edges that bind. The statement gives these.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id  BIGINT  the trace whose end they lead to
--   place     BIGINT  place from the end, from 0
--   edge_id   BIGINT  the edge

SELECT e.edge_id, e.source_node, e.target_node, n.trace_id::BIGINT AS end_of
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
WHERE e.is_binding
ORDER BY e.edge_id
