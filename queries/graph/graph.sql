-- Who waits for whom, how is it known, and how much of the device's time rests on what?
-- The edges of table graph_edge by kind. An edge binds where its target waits for it longer than for all else.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   rank             INTEGER  global rank
--   kind             VARCHAR  what makes the one wait for the other
--   known_by         VARCHAR  recorded, inferred or assumed
--   edge_count       BIGINT   edges
--   binding_count    BIGINT   of them, those that bind
--   bound_wall_ns    BIGINT   busy time of the work whose start they bind, ns
--   bound_pct        DOUBLE   of the busy time of all devices of the rank, 0 to 100
--   weight_ns        BIGINT   sum of the weights of those that bind, ns
--   unexplained_ns   BIGINT   what they leave unexplained, above 15 µs each, ns
-- Invariant: binding_count <= edge_count
-- Empty: device_events: no work of a device is recorded

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
