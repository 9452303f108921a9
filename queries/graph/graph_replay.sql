-- When does each node come if every edge has the weight that is usual, and nothing is carried over from the recording?
-- The statement gives the edges that are replayed.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   node       BIGINT  the node, as in graph_edge
--   at_ns      BIGINT  when it comes, from the first node on, ns
--   latest_ns  BIGINT  when it may come at the latest, ns; NULL where no end waits for it
--   edge_id    BIGINT  the edge that binds it; NULL for the first node

SELECT
    e.edge_id, e.source_node, e.target_node, e.weight_ns, e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
ORDER BY e.edge_id
