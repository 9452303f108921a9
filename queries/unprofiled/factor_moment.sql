-- When do the steps start and end in the replay without the profiler, if the host is quicker or slower by a factor?
-- The statement gives the edges with the weights of plain_weight and factors of 0.2, 0.67, 1, 1.5 and 4 on the host's own
-- time, where a step was measured that one of them should give.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   moment  BIGINT  as in step_moment
--   ns_0    BIGINT  when it comes with the first factor, ns
--   ns_1    BIGINT  with the second, ns
--   ns_2    BIGINT  with the third, ns
--   ns_3    BIGINT  with the fourth, ns
--   ns_4    BIGINT  with the fifth, ns

SELECT
    e.source_node, e.target_node, e.target_ns, m.moment,
    (w.plain_ns - 0.8 * w.host_ns)::BIGINT AS weight_0_ns,
    (w.plain_ns - 0.33 * w.host_ns)::BIGINT AS weight_1_ns,
    w.plain_ns AS weight_2_ns,
    (w.plain_ns + 0.5 * w.host_ns)::BIGINT AS weight_3_ns,
    (w.plain_ns + 3 * w.host_ns)::BIGINT AS weight_4_ns
FROM graph_edge AS e
INNER JOIN plain_weight AS w USING (edge_id)
LEFT JOIN step_moment AS m ON e.target_node = m.node
WHERE EXISTS (SELECT 1 FROM plain_step)
ORDER BY e.edge_id
