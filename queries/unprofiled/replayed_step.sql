-- Step time of each trace in replays of the dependency graph: recorded, unprofiled, and bounds.
-- Also contains the host slowdown factor at which the replay matches the measured step. The step time is the mean of at
-- least ten consecutive steps. A shorter recording is extended to ten steps, with the mean interval between its step
-- ends. This statement selects the edges, and native/passes/replay.c replays them.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id           BIGINT -> trace
--   replayed_ns        BIGINT           step time with the recorded edge weights, ns
--   unprofiled_ns      BIGINT           step time with the unprofiled edge weights, ns
--   low_ns             BIGINT           step time with the lower bounds of the unprofiled weights, ns
--   high_ns            BIGINT           step time with the upper bounds of the unprofiled weights, ns
--   recorded_ns        BIGINT           step time from the recorded times, ns
--   factor_millionths  BIGINT           host slowdown factor × 1,000,000, at most 4,000,000; NULL without a measured step

SELECT
    e.source_node, e.target_node, e.target_ns,
    m.trace_id,
    m.bound,
    r.spanned_count,
    e.weight_ns, w.usual_ns, w.low_ns, w.high_ns, w.host_ns, p.step_ns AS wanted_ns
FROM graph_edge AS e
INNER JOIN unprofiled_weight AS w USING (edge_id)
LEFT JOIN step_bound AS m ON e.target_node = m.node
LEFT JOIN recorded_step AS r ON m.trace_id = r.trace_id
LEFT JOIN measured_step AS p ON EXISTS (FROM recorded_step WHERE step_count > 0)
ORDER BY e.edge_id
