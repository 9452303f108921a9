-- When do the steps start and end in the replay, as recorded and without the profiler?
-- The statement gives the edges that are replayed, with the weights of graph_edge, then those of plain_weight: usual, lower, higher.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   moment  BIGINT  as in step_moment
--   ns_0    BIGINT  when it comes in the replay of the recording, ns
--   ns_1    BIGINT  when it comes without the profiler, ns
--   ns_2    BIGINT  with the lower weights, ns
--   ns_3    BIGINT  with the higher weights, ns
--   ns_4    BIGINT  as ns_0, ns

SELECT
    e.source_node, e.target_node, e.target_ns, m.moment, e.weight_ns,
    w.plain_ns, w.low_ns, w.high_ns,
    e.weight_ns AS again_ns
FROM graph_edge AS e
INNER JOIN plain_weight AS w USING (edge_id)
LEFT JOIN step_moment AS m ON e.target_node = m.node
ORDER BY e.edge_id
