-- Profiler overhead, incomplete events, and host clock resolution of each trace.
-- A thread cannot start two calls at the same time. The host clock is coarse if more than 10 % of the launch calls
-- start at the same time as another call of their thread. Its resolution is then the shortest time between two calls.
--
-- Kind:     table
-- Columns:
--   trace_id          INTEGER -> trace
--   overhead_count    BIGINT  number of profiler overhead events
--   overhead_ns       BIGINT  sum of durations of profiler overhead events, ns
--   unfinished_count  BIGINT  number of events still open at the end of the recording, including starts without an end
--   stray_end_count   BIGINT  number of span ends without a recorded start
--   host_clock_ns     BIGINT  resolution of a coarse host clock, ns; NULL if below 20 µs

WITH overhead AS (
    SELECT trace_id, count(*) AS overhead_count, sum(dur_ns)::BIGINT AS overhead_ns
    FROM event
    WHERE category = 'overhead'
    GROUP BY trace_id
),

unfinished AS (
    SELECT trace_id, count(*) AS unfinished_count
    FROM event
    -- Very few events contain the word, so parse JSON only for these events.
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
