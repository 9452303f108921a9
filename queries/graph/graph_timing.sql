-- Recorded and latest possible time of each node.
-- The statement provides the edges of a replay with recorded times; the replay runs natively.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   node       BIGINT
--   at_ns      BIGINT  recorded time, from the first node, ns
--   latest_ns  BIGINT  latest time that delays no end, ns; NULL where no end depends on it
--   edge_id    BIGINT  binding edge; NULL for the first node

SELECT
    e.edge_id, e.source_node, e.target_node,
    e.weight_ns + e.rest_ns AS weight_ns,
    e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end
FROM graph_edge AS e
LEFT JOIN graph_end AS n ON e.target_node = n.node
ORDER BY e.edge_id
