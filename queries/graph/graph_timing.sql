-- How late may each node be before the run ends later?
-- A replay with the recorded times: at_ns is when a node was recorded, and latest_ns is when it may come with all that
-- waits for it as it was. The statement gives the edges that are replayed.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   node       BIGINT  the node, as in graph_edge
--   at_ns      BIGINT  when it was, from the first node on, ns
--   latest_ns  BIGINT  when it may be at the latest, ns; NULL where no end waits for it
--   edge_id    BIGINT  the edge that binds it; NULL for the first node

SELECT
    e.edge_id, e.source_node, e.target_node,
    e.weight_ns + e.rest_ns AS weight_ns,
    e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
ORDER BY e.edge_id
