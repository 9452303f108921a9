-- When do the steps start and end in the replay, with five factors between those of table factor_range?
-- The statement gives the edges with the weights of plain_weight and these factors, evenly spaced, on the host's own time.
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
    (w.plain_ns + (r.factor + (r.next_factor - r.factor) * 1 / 6 - 1) * w.host_ns)::BIGINT
        AS weight_0_ns,
    (w.plain_ns + (r.factor + (r.next_factor - r.factor) * 2 / 6 - 1) * w.host_ns)::BIGINT
        AS weight_1_ns,
    (w.plain_ns + (r.factor + (r.next_factor - r.factor) * 3 / 6 - 1) * w.host_ns)::BIGINT
        AS weight_2_ns,
    (w.plain_ns + (r.factor + (r.next_factor - r.factor) * 4 / 6 - 1) * w.host_ns)::BIGINT
        AS weight_3_ns,
    (w.plain_ns + (r.factor + (r.next_factor - r.factor) * 5 / 6 - 1) * w.host_ns)::BIGINT
        AS weight_4_ns
FROM graph_edge AS e
INNER JOIN plain_weight AS w USING (edge_id)
CROSS JOIN factor_range AS r
LEFT JOIN step_moment AS m ON e.target_node = m.node
WHERE r.next_factor IS NOT NULL
ORDER BY e.edge_id
