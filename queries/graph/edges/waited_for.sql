-- Causes that the start and end of a device event depend on, the binding one first.
-- `event_id` or `kernel` selects events; the longest matching ones are shown.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   event_id  BIGINT = NULL   device event, as in table event
--   kernel    VARCHAR = NULL  substring of the kernel name, case-insensitive
--   limit     BIGINT = 3      number of events per trace; 0 for all
-- Needs: event_id | kernel
-- Columns:
--   rank             INTEGER
--   event_id         BIGINT   device event
--   name             VARCHAR
--   boundary         VARCHAR  start or end
--   kind             VARCHAR  kind of dependency
--   known_by         VARCHAR
--   source           VARCHAR  name of the cause
--   source_event_id  BIGINT   event of the cause; NULL if the cause is not an event
--   source_rank      INTEGER  rank of the cause
--   before_ns        BIGINT   time from the cause to the start or end, ns
--   least_ns         BIGINT   minimum time between the cause and the start or end, ns
--   unexplained_ns   BIGINT   part of before_ns that the binding cause leaves unexplained, ns; 0 for other causes
--   is_binding       BOOLEAN  the cause is binding: no other cause was satisfied later
--   reason           VARCHAR  explanation of the dependency
-- Keep:     event_id, boundary, kind, known_by, source, before_ns, is_binding

WITH chosen AS (
    SELECT s.*, t.rank
    FROM graph_span AS s
    INNER JOIN trace AS t USING (trace_id)
    WHERE
        s.kind = 'work'
        AND s.piece = 0
        AND ($event_id IS NULL OR s.event_id = $event_id)
        AND ($kernel IS NULL OR contains(lower(s.name), lower($kernel)))
    QUALIFY
        $limit = 0
        OR row_number() OVER (
            PARTITION BY s.trace_id ORDER BY s.end_ns - s.start_ns DESC, s.event_id
        ) <= $limit
)

SELECT
    c.rank, c.event_id, c.name,
    if(e.target_node % 2 = 0, 'start', 'end') AS boundary,
    e.kind, e.known_by,
    CASE
        WHEN e.source_node = 0 THEN 'all ranks starting'
        WHEN e.source_node < 0 THEN 'its ranks'
        ELSE s.name || if(e.source_node % 2 = 0, ' (start)', ' (end)')
    END AS source,
    s.event_id AS source_event_id,
    r.rank AS source_rank,
    e.target_ns - e.source_ns AS before_ns,
    e.weight_ns AS least_ns,
    e.rest_ns AS unexplained_ns,
    e.is_binding,
    graph_reason(e.kind, e.known_by) AS reason
FROM chosen AS c
INNER JOIN graph_edge AS e ON e.target_node IN (c.span_id * 2, c.span_id * 2 + 1)
LEFT JOIN graph_span AS s ON e.source_node > 0 AND e.source_node // 2 = s.span_id
LEFT JOIN trace AS r ON s.trace_id = r.trace_id
ORDER BY
    c.rank NULLS LAST, c.trace_id, c.end_ns - c.start_ns DESC, c.event_id, e.target_node,
    e.is_binding DESC, e.edge_id
