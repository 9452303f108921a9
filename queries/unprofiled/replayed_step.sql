-- The step of each trace in replays of the dependency graph
-- As recorded, without the profiler, and with the lower and the higher weights of table plain_weight; and the factor on the
-- host's own time with which the replay takes the step that was measured without the profiler. A step is the mean
-- of ten that are queued behind each other, as a loop is timed: behind the last of fewer come as many as are missing,
-- each as long as the ends of those that are there are apart. The statement gives the edges that are replayed.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id           BIGINT -> trace   the trace
--   replayed_ns        BIGINT            the step, replayed as recorded, ns
--   plain_ns           BIGINT            without the profiler, ns
--   low_ns             BIGINT            at least, ns
--   high_ns            BIGINT            at most, ns
--   recorded_ns        BIGINT            the same step as it was recorded, ns
--   factor_millionths  BIGINT            the factor, 4 at most, times 1,000,000; NULL where no step was measured

SELECT
    e.source_node, e.target_node, e.target_ns,
    m.trace_id,
    m.bound,
    r.step_count,
    e.weight_ns, w.plain_ns, w.low_ns, w.high_ns, w.host_ns, p.plain_ns AS wanted_ns
FROM graph_edge AS e
INNER JOIN plain_weight AS w USING (edge_id)
LEFT JOIN step_bound AS m ON e.target_node = m.node
LEFT JOIN recorded_step AS r ON m.trace_id = r.trace_id
LEFT JOIN plain_step AS p ON EXISTS (FROM recorded_step WHERE step_count > 0)
ORDER BY e.edge_id
