-- Edges of the dependency graph by kind, with the GPU time that depends on them.
-- An edge is binding if it determines when its target starts or ends.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   rank            INTEGER
--   kind            VARCHAR  kind of dependency
--   known_by        VARCHAR
--   edge_count      BIGINT   number of edges
--   binding_count   BIGINT   number of binding edges
--   bound_wall_ns   BIGINT   busy time of the work that the binding edges start, ns; overlap counts once
--   bound_pct       DOUBLE   bound_wall_ns as a share of the busy time of the rank, 0 to 100
--   weight_ns       BIGINT   sum of the weights of binding edges, ns
--   unexplained_ns  BIGINT   sum of unexplained times above 15 µs, ns
-- Invariant: binding_count <= edge_count
-- Empty: device_events: no GPU work was recorded

WITH busy AS (
    SELECT trace_id, event_id, piece, wall_ns, sum(wall_ns) OVER (PARTITION BY trace_id) AS busy_ns
    FROM device_events
)

SELECT
    t.rank, e.kind, e.known_by,
    count(*) AS edge_count,
    count(*) FILTER (WHERE e.is_binding) AS binding_count,
    coalesce(sum(b.wall_ns) FILTER (WHERE e.is_binding AND e.target_node % 2 = 0), 0)::BIGINT
        AS bound_wall_ns,
    100.0 * bound_wall_ns / nullif(max(max(b.busy_ns)) OVER (PARTITION BY e.trace_id), 0)
        AS bound_pct,
    coalesce(sum(e.weight_ns) FILTER (WHERE e.is_binding), 0)::BIGINT AS weight_ns,
    coalesce(sum(e.rest_ns) FILTER (WHERE e.rest_ns > 15000), 0)::BIGINT AS unexplained_ns
FROM graph_edge AS e
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN graph_span AS s
    ON e.target_node // 2 = s.span_id AND s.kind = 'work' AND e.target_node > 0
LEFT JOIN busy AS b ON s.trace_id = b.trace_id AND s.event_id = b.event_id AND s.piece = b.piece
GROUP BY e.trace_id, t.rank, e.kind, e.known_by
ORDER BY t.rank NULLS LAST, e.trace_id, binding_count DESC, e.kind, e.known_by
