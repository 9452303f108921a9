-- What the profiler says of its own work in each trace, and the resolution of its clock.
-- A thread cannot begin two calls at once: where it does so in more than 10 % of its calls that put work on a device, the
-- clock of the host is coarse, and the shortest time between two calls is its resolution.
--
-- Kind:     table
-- Columns:
--   trace_id          INTEGER -> trace  the trace
--   overhead_count    BIGINT            events of the profiler's own work (category overhead)
--   overhead_ns       BIGINT            how long they took, added up, ns
--   unfinished_count  BIGINT            events that still ran when the profiler stopped; begins without an end are among them
--   stray_end_count   BIGINT            ends of spans whose begin is not in the file
--   host_clock_ns     BIGINT            resolution of the clock of the host, where that is 20 µs or more, ns; else NULL

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
),

launching AS (
    SELECT trace_id, pid, tid, correlation, min(ts_ns) AS ts_ns
    FROM event
    WHERE is_launch_call(category) AND correlation > 0
    GROUP BY trace_id, pid, tid, correlation
),

host_clock AS (
    SELECT trace_id, min(apart_ns) FILTER (apart_ns > 0) AS host_clock_ns
    FROM (
        SELECT
            trace_id, next_start_ns((trace_id, pid, tid), ts_ns, correlation) - ts_ns AS apart_ns
        FROM launching
    ) AS next_call
    GROUP BY trace_id
    HAVING count_if(apart_ns = 0) > 0.1 * count(*) AND min(apart_ns) FILTER (apart_ns > 0) >= 20000
)

SELECT
    trace.trace_id,
    coalesce(overhead.overhead_count, 0) AS overhead_count,
    coalesce(overhead.overhead_ns, 0) AS overhead_ns,
    coalesce(unfinished.unfinished_count, 0) + coalesce(unpaired_kind.begin_count, 0)
        AS unfinished_count,
    coalesce(unpaired_kind.end_count, 0) AS stray_end_count,
    host_clock.host_clock_ns
FROM trace
LEFT JOIN overhead USING (trace_id)
LEFT JOIN unfinished USING (trace_id)
LEFT JOIN unpaired_kind USING (trace_id)
LEFT JOIN host_clock USING (trace_id)
ORDER BY trace.trace_id
