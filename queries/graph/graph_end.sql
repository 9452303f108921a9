-- Which work ends last in each trace?
-- The end of the device window, up to which paths and slack count.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id  INTEGER -> trace  the trace
--   node      BIGINT            the end of its last work, as in graph_edge
--   start_ns  BIGINT            start of its first work on the clock of the run, ns
--   end_ns    BIGINT            end of its last work, ns

SELECT
    trace_id,
    arg_max(span_id, (end_ns, span_id)) * 2 + 1 AS node,
    min(start_ns) AS start_ns,
    max(end_ns) AS end_ns
FROM graph_span
WHERE kind = 'work'
GROUP BY trace_id
ORDER BY trace_id
