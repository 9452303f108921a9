-- Attribution of the work of each span of the dependency graph.
-- A call has the attribution of the first device event that it launched.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   span_id BIGINT, class VARCHAR, work_kind VARCHAR, op_id BIGINT, op VARCHAR, module VARCHAR
--   phase VARCHAR, step BIGINT

WITH attributed AS (
    SELECT
        a.trace_id, a.event_id, a.launch_id, a.piece,
        {
            class: a.class,
            work_kind: a.kind,
            op_id: a.op_id,
            op: coalesce(a.op_name, k.op_name),
            module: coalesce(m.path, a.row_name),
            phase: a.phase,
            step: a.step
        } AS fact
    FROM attributed_events AS a
    LEFT JOIN attribution AS k
        ON a.trace_id = k.trace_id AND a.like_event_id = k.event_id AND k.piece = 0
    LEFT JOIN module AS m ON a.trace_id = m.trace_id AND a.module_id = m.module_id
),

span_attribution AS (
    SELECT s.span_id, a.fact
    FROM graph_span AS s
    INNER JOIN attributed AS a USING (trace_id, event_id, piece)
    WHERE s.kind = 'work'
    UNION ALL
    SELECT s.span_id, min_by(a.fact, (a.event_id, a.piece)) AS fact
    FROM graph_span AS s
    INNER JOIN attributed AS a ON s.trace_id = a.trace_id AND s.event_id = a.launch_id
    WHERE s.kind = 'call'
    GROUP BY s.span_id
)

SELECT span_id, unnest(fact)
FROM span_attribution
ORDER BY span_id
