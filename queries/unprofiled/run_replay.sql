-- Replayed time of each node without the profiler.
-- The statement provides the edges with the weights of `run_weight`; the replay runs natively.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   node       BIGINT
--   at_ns      BIGINT  replayed time, from the first node
--   latest_ns  BIGINT  latest time that delays no end; NULL where no end depends on it
--   edge_id    BIGINT  binding edge; NULL for the first node

SELECT
    e.edge_id, e.source_node, e.target_node,
    w.usual_ns AS weight_ns,
    e.target_ns,
    (n.node IS NOT NULL)::BIGINT AS is_end
FROM graph_edge AS e
INNER JOIN run_weight AS w USING (edge_id)
LEFT JOIN graph_end AS n ON e.target_node = n.node
ORDER BY e.edge_id
