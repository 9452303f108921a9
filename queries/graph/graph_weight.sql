-- How much lies between the nodes of each edge at least, and what is left of the edge that binds, if launches and gaps are quick, usual or slow?
-- The weights of table graph_edge with the tenth, the fiftieth and the ninetieth percentile of what is usual in the trace.
-- Of each the rest up to the recorded moment is at the edge that binds with these weights.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   edge_id         BIGINT  the edge
--   quick_ns        BIGINT  its weight by the tenth percentile, ns
--   quick_rest_ns   BIGINT  its rest then, ns
--   usual_ns        BIGINT  its weight by the median, ns
--   usual_rest_ns   BIGINT  its rest then, ns
--   slow_ns         BIGINT  its weight by the ninetieth percentile, ns
--   slow_rest_ns    BIGINT  its rest then, ns

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
