-- Records with implausible times, and the durations that count instead.
-- Computed before all other derived tables. Excluded records are in view `left_out` instead of `event`.
-- outlasts_recording and outlasts_next apply only if they affect one record or at most 1 % of the work. Otherwise the
-- clock is wrong, all records count fully, and `health` warns. The problems are listed below.
--
-- Kind:     table
-- Columns:
--   trace_id    INTEGER -> trace
--   event_id    BIGINT -> record.event_id  record
--   problem     VARCHAR                    problem, such as lost_time; see the list below
--   reason      VARCHAR                    description that completes the phrase "records …"
--   is_work     BOOLEAN                    the record is device work
--   ts_ns       BIGINT                     start, as recorded, ns
--   dur_ns      BIGINT                     duration, as recorded, ns
--   counted_ns  BIGINT                     duration that counts, ns; NULL if excluded
-- Invariant: counted_ns IS NULL OR (0 < counted_ns AND counted_ns <= dur_ns)

-- lost_time           time 0 although other records start an hour later or more; or start and
--                     duration 0 of device work, a launch call, or an op: lost by the profiler
-- other_clock         negative time although other records start an hour later or more, or more
--                     than 10^6 s (11 days) from the median times of all host processes
-- outside_recording   device work that starts before the host records by more than their length
--                     (at least 1 s), or ends after them by more than that length plus all work
--                     that may have been queued
-- left_over           work without a launch that ended before the host records, followed by a
--                     pause as long as the host records (at most 1 s, at least 1 ms)
-- delivered_twice     duplicate record with the same correlation ID, or with two IDs if longer
--                     than 1 µs
-- no_durations        most work has zero length: all work is excluded
-- wrong_unit          most work outside graphs lasts more than 100 times the time until the next
--                     work on its stream, or most launch calls take under 50 ns and most work
--                     under 1 µs, or most work that CUDA or HIP launched takes 1 to 399 ns (real
--                     kernels take at least 0.5 µs): all work is excluded
-- outlasts_recording  work without a launch that is longer than the extent of the host records and
--                     launched work together (at least 1 ms)
-- outlasts_next       ends after the next work of its stream, and more than 100 µs after the start
--                     of that work: cut at that start. Not in graphs, which may have branches.
-- unreturned          Python call that ends with its thread although its caller returned or made
--                     another call (exception, generator): cut at that time
WITH RECURSIVE kind_of_side AS (
    SELECT *, bool_or(side = 'host') OVER (PARTITION BY trace_id) IS TRUE AS has_host
    FROM event_kind
),

-- Extent of host events, or of all events in traces without host events.
extent AS (
    SELECT
        trace_id,
        any_value(has_host) AS has_host,
        bool_or(has_hip) AS has_hip,
        min(first_ns) FILTER (side = 'host' OR NOT has_host) AS first_ns,
        max(last_ns) FILTER (side = 'host' OR NOT has_host) AS last_ns,
        max(end_ns) FILTER (side = 'host' OR NOT has_host) AS end_ns,
        min(first_ns) AS any_first_ns,
        max(last_ns) AS any_last_ns,
        sum(early_count) > 0 AND min(first_positive_ns) >= 3600000000000 AS is_late,
        coalesce(sum(empty_count) FILTER (side = 'work'), 0) > 0 AS has_empty_work
    FROM kind_of_side
    GROUP BY trace_id
),

-- Medians are needed only if times are far apart. They are computed per process because hosts have
-- different clocks.
process_middle AS (
    -- Use the time of a record, never a time between two records, so that records around it are
    -- close to it.
    SELECT event.trace_id, quantile_disc(event.ts_ns, 0.5) AS middle_ns
    FROM event
    INNER JOIN kind_of_side AS k
        ON event.trace_id = k.trace_id AND event.category IS NOT DISTINCT FROM k.category
    WHERE
        event.ts_ns <> 0
        AND (k.side = 'host' OR NOT k.has_host)
        AND event.trace_id IN (
            SELECT trace_id
            FROM extent
            WHERE any_last_ns - any_first_ns > 1000000000000000
        )
    GROUP BY event.trace_id, event.pid
    HAVING count(*) > 1
),

middle AS (
    SELECT trace_id, list(middle_ns) AS middles_ns
    FROM process_middle
    GROUP BY trace_id
),

stray AS MATERIALIZED (
    SELECT
        e.trace_id, e.event_id,
        if(e.ts_ns = 0, 'lost_time', 'other_clock') AS problem
    FROM event AS e
    INNER JOIN extent AS x USING (trace_id)
    LEFT JOIN middle AS m USING (trace_id)
    WHERE
        (x.is_late AND e.ts_ns <= 0)
        OR (
            x.has_empty_work
            AND e.ts_ns = 0
            AND e.dur_ns = 0
            AND (is_device_work(e.category) OR is_launch_call(e.category) OR is_op(e.category))
        )
        OR NOT list_bool_or(
            list_transform(m.middles_ns, LAMBDA at_ns: abs(e.ts_ns - at_ns) <= 1000000000000000)
        )
),

-- Extent of the host records, excluding records with stray times.
recording AS (
    SELECT trace_id, first_ns, end_ns
    FROM extent
    WHERE has_host AND trace_id NOT IN (SELECT trace_id FROM stray)
    UNION ALL
    SELECT e.trace_id, min(e.ts_ns) AS first_ns, max(e.ts_ns + e.dur_ns) AS end_ns
    FROM event AS e
    INNER JOIN kind_of_side AS k
        ON e.trace_id = k.trace_id AND e.category = k.category AND k.side = 'host'
    WHERE
        e.trace_id IN (SELECT trace_id FROM stray)
        AND (e.trace_id, e.event_id) NOT IN (SELECT (trace_id, event_id) FROM stray)
    GROUP BY e.trace_id
),

call AS (
    SELECT
        trace_id, correlation,
        min(ts_ns) AS call_ns,
        bool_or(contains(name, 'Graph')) AS is_graph,
        bool_and(category IN ('cuda_runtime', 'cuda_driver', 'Runtime')) AS is_gpu_call
    FROM event
    WHERE
        is_launch_call(category)
        AND correlation IS NOT NULL
        AND (trace_id, event_id) NOT IN (SELECT (trace_id, event_id) FROM stray)
    GROUP BY trace_id, correlation
),

work AS MATERIALIZED (
    SELECT
        e.trace_id, e.event_id, e.pid, e.device, e.stream, e.name, e.ts_ns, e.dur_ns,
        e.ts_ns + e.dur_ns AS end_ns,
        e.correlation, c.call_ns,
        coalesce(c.is_graph, FALSE) AS is_graph,
        coalesce(c.is_gpu_call, FALSE) AS is_of_gpu_call,
        is_of_gpu_call AND NOT is_graph AS is_serial
    FROM event AS e
    LEFT JOIN call AS c USING (trace_id, correlation)
    WHERE
        is_device_work(e.category)
        AND (e.trace_id, e.event_id) NOT IN (SELECT (trace_id, event_id) FROM stray)
),

-- If most of the work is wrong in the same way, treat all work as wrong.
unit AS (
    SELECT
        trace_id, CASE
            WHEN 2 * count_if(dur_ns = 0) > count(*) THEN 'no_durations'
            WHEN
                2 * count_if(
                    NOT is_graph AND ts_ns < next_ts_ns AND dur_ns > 100 * (next_ts_ns - ts_ns)
                ) > count_if(NOT is_graph)
                OR 2 * count_if(dur_ns < 1000) > count(*)
                AND trace_id IN (
                    SELECT trace_id FROM event_kind
                    WHERE is_launch_call(category)
                    GROUP BY trace_id
                    HAVING 2 * sum(short_count) > sum(record_count) AND sum(record_count) >= 4
                )
                OR 2 * count_if(is_of_gpu_call AND dur_ns BETWEEN 1 AND 399) > count(*)
                AND count(*) >= 4
                THEN 'wrong_unit'
        END AS problem,
        (
            SELECT
                CASE
                    WHEN count_if(event.dur_ns % 1000000 = 0) > 0.9 * count(*) THEN 'ms'
                    WHEN count_if(event.dur_ns % 1000 = 0) > 0.9 * count(*) THEN 'µs'
                END
            FROM event
            WHERE event.trace_id = next_on_stream.trace_id
        ) AS unit
    FROM (
        SELECT
            trace_id, is_graph, is_of_gpu_call, ts_ns, dur_ns,
            lead(ts_ns) OVER (PARTITION BY trace_id, pid, device, stream ORDER BY ts_ns, end_ns)
                AS next_ts_ns
        FROM work
    ) AS next_on_stream
    GROUP BY trace_id
    HAVING count(*) >= 4
),

-- Allowed distance of device work from the host records.
reach AS (
    SELECT
        r.trace_id, r.first_ns,
        r.first_ns - greatest(r.end_ns - r.first_ns, 1000000000) AS from_ns,
        r.end_ns
        + greatest(r.end_ns - r.first_ns, 1000000000)
        + coalesce(
            sum(w.dur_ns) FILTER (w.dur_ns <= greatest(r.end_ns - r.first_ns, 1000000000)), 0
        )::BIGINT AS until_ns,
        greatest(least(r.end_ns - r.first_ns, 1000000000), 1000000) AS longest_pause_ns,
        greatest(
            greatest(r.end_ns, max(w.end_ns) FILTER (w.call_ns IS NOT NULL))
            - least(r.first_ns, min(w.ts_ns) FILTER (w.call_ns IS NOT NULL)),
            1000000
        ) AS length_ns
    FROM recording AS r
    LEFT JOIN work AS w USING (trace_id)
    GROUP BY r.trace_id, r.first_ns, r.end_ns
),

-- Left-over work ends before the last long pause that precedes the host records.
early AS (
    SELECT
        *,
        lead(ts_ns, 1, first_ns) OVER by_time - max(end_ns) OVER by_time > longest_pause_ns
            AS is_before_pause
    FROM (
        SELECT w.trace_id, w.ts_ns, w.end_ns, r.first_ns, r.longest_pause_ns
        FROM work AS w
        INNER JOIN reach AS r USING (trace_id)
        WHERE w.call_ns IS NULL AND w.ts_ns < r.first_ns
    ) AS unlaunched
    WINDOW by_time AS (PARTITION BY trace_id ORDER BY ts_ns, end_ns)
),

pause AS (
    SELECT trace_id, max(ts_ns) AS last_left_over_ns
    FROM early
    WHERE is_before_pause
    GROUP BY trace_id
),

judged AS (
    SELECT
        w.*,
        CASE
            WHEN u.problem IS NOT NULL THEN u.problem
            WHEN w.call_ns IS NULL AND w.ts_ns <= p.last_left_over_ns THEN 'left_over'
            WHEN w.ts_ns < r.from_ns OR w.end_ns > r.until_ns THEN 'outside_recording'
            WHEN w.call_ns IS NULL AND w.dur_ns > r.length_ns THEN 'outlasts_recording'
        END AS problem
    FROM work AS w
    LEFT JOIN unit AS u USING (trace_id)
    LEFT JOIN reach AS r USING (trace_id)
    LEFT JOIN pause AS p USING (trace_id)
),

-- Next work on the stream. Duplicates are adjacent. Zero-length work does not limit adjacent work.
followed AS (
    SELECT
        *,
        lead(event_id) OVER on_stream AS next_id,
        lead(name) OVER on_stream AS next_name,
        lead(ts_ns) OVER on_stream AS next_ts_ns,
        lead(end_ns) OVER on_stream AS next_end_ns,
        lead(correlation) OVER on_stream AS next_correlation,
        lead(is_serial) OVER on_stream AS next_is_serial
    FROM judged
    WHERE problem IS NULL AND dur_ns > 0
    WINDOW on_stream AS (
        PARTITION BY trace_id, pid, device, stream
        ORDER BY ts_ns, end_ns, call_ns IS NOT NULL, correlation, event_id
    )
),

duplicate AS (
    SELECT f.trace_id, f.event_id
    FROM followed AS f
    INNER JOIN event AS one USING (trace_id, event_id)
    INNER JOIN event AS other ON f.trace_id = other.trace_id AND f.next_id = other.event_id
    WHERE
        f.ts_ns = f.next_ts_ns
        AND f.end_ns = f.next_end_ns
        AND f.name = f.next_name
        AND CASE
            WHEN f.correlation = f.next_correlation
                THEN
                    one.args = other.args
                    AND (NOT f.is_graph OR contains(one.args::VARCHAR, 'graph node id'))
            ELSE
                f.correlation <> f.next_correlation
                AND f.stream IS NOT NULL
                AND f.dur_ns > 1000
        END
),

frame AS MATERIALIZED (
    SELECT
        trace_id, pid, tid, event_id, python_id,
        coalesce(python_parent_id, -1) AS parent_id,
        ts_ns,
        ts_ns + dur_ns AS end_ns
    FROM event
    WHERE
        is_python_call(category)
        AND python_id IS NOT NULL
        AND (trace_id, event_id) NOT IN (SELECT (trace_id, event_id) FROM stray)
),

frame_end AS (
    SELECT trace_id, pid, tid, max(end_ns) AS last_end_ns
    FROM frame
    GROUP BY trace_id, pid, tid
),

last_frame AS MATERIALIZED (
    SELECT f.*
    FROM frame AS f
    INNER JOIN frame_end AS e USING (trace_id, pid, tid)
    WHERE f.end_ns >= e.last_end_ns - 1000
),

-- A call ends at the latest when its caller ends or makes the next call.
left_frame AS MATERIALIZED (
    SELECT
        f.trace_id, f.event_id, f.python_id, f.parent_id, f.ts_ns, f.end_ns,
        least(f.end_ns, next_call.ts_ns, caller.end_ns) AS left_ns,
        coalesce(caller.end_ns >= e.last_end_ns - 1000, FALSE) AS is_caller_last
    FROM last_frame AS f
    INNER JOIN frame_end AS e USING (trace_id, pid, tid)
    ASOF LEFT JOIN frame AS next_call
        ON
            f.trace_id = next_call.trace_id
            AND f.pid = next_call.pid
            AND f.tid = next_call.tid
            AND f.parent_id = next_call.parent_id
            AND f.ts_ns < next_call.ts_ns
    LEFT JOIN frame AS caller
        ON f.trace_id = caller.trace_id AND f.parent_id = caller.python_id
),

-- Nested calls end at the latest with their caller.
unreturned AS (
    SELECT trace_id, event_id, python_id, ts_ns, end_ns, left_ns
    FROM left_frame
    WHERE parent_id = -1 OR NOT is_caller_last
    UNION ALL
    SELECT
        f.trace_id, f.event_id, f.python_id, f.ts_ns, f.end_ns,
        least(f.left_ns, caller.left_ns) AS left_ns
    FROM unreturned AS caller
    INNER JOIN left_frame AS f
        ON caller.trace_id = f.trace_id AND caller.python_id = f.parent_id
),

result AS (
    SELECT trace_id, event_id, problem, NULL::BIGINT AS counted_ns
    FROM stray
    UNION ALL
    SELECT trace_id, event_id, 'unreturned' AS problem, left_ns - ts_ns AS counted_ns
    FROM unreturned
    WHERE left_ns > ts_ns AND left_ns < end_ns - 1000
    UNION ALL
    SELECT trace_id, event_id, problem, NULL AS counted_ns
    FROM judged
    WHERE problem IS NOT NULL
    UNION ALL
    SELECT trace_id, event_id, 'delivered_twice' AS problem, NULL AS counted_ns
    FROM duplicate
    UNION ALL
    SELECT trace_id, event_id, 'outlasts_next' AS problem, next_ts_ns - ts_ns AS counted_ns
    FROM followed
    WHERE
        end_ns > next_end_ns
        AND end_ns > next_ts_ns + 100000
        AND ts_ns < next_ts_ns
        AND is_serial
        AND next_is_serial
        AND stream IS NOT NULL
        AND correlation <> next_correlation
),

-- Problems that affect too many records to be single errors.
common AS (
    SELECT trace_id, f.problem
    FROM result AS f
    INNER JOIN (SELECT trace_id, count(*) AS work_count FROM work GROUP BY trace_id) AS w
        USING (trace_id)
    WHERE f.problem LIKE 'outlasts%'
    GROUP BY trace_id, f.problem
    HAVING count(*) > greatest(1, 0.01 * any_value(w.work_count))
)

SELECT
    f.trace_id, f.event_id, f.problem, CASE f.problem
        WHEN 'lost_time'
            THEN
                'that the profiler recorded without a time (0'
                || CASE
                    WHEN x.has_hip THEN ')'
                    ELSE '; known bug of CUPTI in CUDA 12.6 to 13.0: use 13.0 update 1 or later)'
                END
        WHEN 'other_clock' THEN 'from another clock, more than 11 days away'
        WHEN 'outside_recording' THEN 'outside the recorded host time by more than its length'
        WHEN 'left_over' THEN 'left over from before the recording'
        WHEN 'delivered_twice' THEN 'delivered twice'
        WHEN 'no_durations'
            THEN
                'of which most last 0 ns'
                || coalesce(' (durations in the file are in whole ' || u.unit || ')', '')
                || ', so busy and idle time are unknown'
        WHEN 'wrong_unit'
            THEN
                'with times in a wrong unit, not µs (most last 100 times longer than the gap to '
                || 'the next event of their stream, or less than 400 ns, or their launch calls '
                || 'take less than 50 ns)'
        WHEN 'unreturned' THEN 'of Python calls that never returned'
        WHEN 'outlasts_recording' THEN 'longer than the complete recording'
        WHEN 'outlasts_next'
            THEN
                'that overlap the next event of their stream'
                || if(c.problem IS NULL, ', and count until it begins', '')
    END
    || CASE
        WHEN c.problem IS NOT NULL
            THEN
                ', too many for single wrong times: they count in full, the device clock or '
                || 'unit is wrong, and busy and idle time are unknown'
        ELSE ''
    END AS reason,
    coalesce(is_device_work(e.category), FALSE) AS is_work,
    e.ts_ns, e.dur_ns, if(c.problem IS NULL, f.counted_ns, e.dur_ns) AS counted_ns
FROM result AS f
INNER JOIN event AS e USING (trace_id, event_id)
INNER JOIN extent AS x USING (trace_id)
LEFT JOIN common AS c ON f.trace_id = c.trace_id AND f.problem = c.problem
LEFT JOIN unit AS u ON f.trace_id = u.trace_id
ORDER BY f.trace_id, f.event_id
