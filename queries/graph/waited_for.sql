-- What did a device event wait for before it began, and what did it wait for until it ended?
-- The edges of the dependency graph into its start and its end, the one that binds first. How long before it what it
-- waited for was there, what lies between the two at least, and what nothing explains. Of event_id and kernel one has to be
-- given; by kernel, the device events that took longest.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   event_id  BIGINT = NULL   the device event, by its number in table event
--   kernel    VARCHAR = NULL  device events whose name holds this text, in any case
--   limit     BIGINT = 3      so many of them in each trace; 0 for all
-- Needs: event_id | kernel
-- Columns:
--   rank             INTEGER  global rank
--   event_id         BIGINT   the device event
--   name             VARCHAR  its name
--   moment           VARCHAR  start or end
--   kind             VARCHAR  what makes it wait
--   known_by         VARCHAR  recorded, inferred or assumed
--   source           VARCHAR  what it waited for
--   source_event_id  BIGINT   its event; NULL where it has none
--   source_rank      INTEGER  its rank
--   before_ns        BIGINT   how long before that moment it was there, ns
--   least_ns         BIGINT   what lies between the two at least, ns
--   unexplained_ns   BIGINT   of the one that binds, what is left, ns
--   is_binding       BOOLEAN  of all that it waited for then, it was there last
--   reason           VARCHAR  why one waits for the other
-- Keep:     event_id, moment, kind, known_by, source, before_ns, is_binding

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
    if(e.target_node % 2 = 0, 'start', 'end') AS moment,
    e.kind, e.known_by,
    CASE
        WHEN e.source_node = 0 THEN 'the start of all'
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
