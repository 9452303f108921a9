-- Weight and unexplained time (rest) of each edge with quick, usual, and slow latencies and stream gaps.
-- Quick, usual, and slow are the 10th, 50th, and 90th percentiles in the trace. Each of the three has its own rest,
-- because the weights determine which edge is binding.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   edge_id BIGINT, quick_ns BIGINT, quick_rest_ns BIGINT, usual_ns BIGINT, usual_rest_ns BIGINT
--   slow_ns BIGINT, slow_rest_ns BIGINT

WITH binding AS (
    SELECT
        arg_min(edge_id, (between_ns - quick_ns) * (1::HUGEINT << 40) + edge_id) AS quick_id,
        arg_min(edge_id, (between_ns - slow_ns) * (1::HUGEINT << 40) + edge_id) AS slow_id
    FROM (SELECT *, (target_ns - source_ns)::HUGEINT AS between_ns FROM graph_edge) AS e
    GROUP BY target_node
)

SELECT
    e.edge_id, e.quick_ns,
    if(q.quick_id IS NULL, 0, e.target_ns - e.source_ns - e.quick_ns) AS quick_rest_ns,
    e.weight_ns AS usual_ns,
    e.rest_ns AS usual_rest_ns,
    e.slow_ns,
    if(s.slow_id IS NULL, 0, e.target_ns - e.source_ns - e.slow_ns) AS slow_rest_ns
FROM graph_edge AS e
LEFT JOIN binding AS q ON e.edge_id = q.quick_id
LEFT JOIN binding AS s ON e.edge_id = s.slow_id
ORDER BY e.edge_id
