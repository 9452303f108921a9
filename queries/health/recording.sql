-- What does the profiler say of its own work in each trace?
--
-- Kind:     table
-- Columns:
--   trace_id          INTEGER -> trace  the trace
--   overhead_count    BIGINT            events of the profiler's own work (category overhead)
--   overhead_ns       BIGINT            how long they took, added up, ns
--   unfinished_count  BIGINT            events that still ran when the profiler stopped; begins without an end are among them
--   stray_end_count   BIGINT            ends of spans whose begin is not in the file

WITH overhead AS (
    SELECT trace_id, count(*) AS overhead_count, sum(dur_ns)::BIGINT AS overhead_ns
    FROM event
    WHERE category = 'overhead'
    GROUP BY trace_id
),

unfinished AS (
    SELECT trace_id, count(*) AS unfinished_count
    FROM event
    -- Nearly no event has the word in its arguments: JSON is read in these only.
    WHERE contains(args::VARCHAR, 'finished') AND (args ->> '$.finished') = 'false'
    GROUP BY trace_id
),

unpaired_kind AS (
    SELECT
        trace_id,
        count(*) FILTER (is_begin) AS begin_count,
        count(*) FILTER (NOT is_begin) AS end_count
    FROM unpaired
    GROUP BY trace_id
)

SELECT
    trace.trace_id,
    coalesce(overhead.overhead_count, 0) AS overhead_count,
    coalesce(overhead.overhead_ns, 0) AS overhead_ns,
    coalesce(unfinished.unfinished_count, 0) + coalesce(unpaired_kind.begin_count, 0)
        AS unfinished_count,
    coalesce(unpaired_kind.end_count, 0) AS stray_end_count
FROM trace
LEFT JOIN overhead USING (trace_id)
LEFT JOIN unfinished USING (trace_id)
LEFT JOIN unpaired_kind USING (trace_id)
ORDER BY trace.trace_id
