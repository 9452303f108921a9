-- When does each node come in the run, without the profiler?
-- The statement gives the edges that are replayed, with the weights of table run_weight; without a row where that has none.
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
    e.edge_id, e.source_node, e.target_node,
    w.usual_ns AS weight_ns,
    e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end
FROM graph_edge AS e
INNER JOIN run_weight AS w USING (edge_id)
LEFT JOIN graph_end AS n ON e.target_node = n.node
ORDER BY e.edge_id
