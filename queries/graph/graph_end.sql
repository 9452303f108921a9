-- Device window of each trace in the dependency graph.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id  INTEGER -> trace
--   node  BIGINT  node of the end of the last device event
--   start_ns BIGINT, end_ns BIGINT

SELECT
    trace_id,
    arg_max(span_id, (end_ns, span_id)) * 2 + 1 AS node,
    min(start_ns) AS start_ns,
    max(end_ns) AS end_ns
FROM graph_span
WHERE kind = 'work'
GROUP BY trace_id
ORDER BY trace_id
