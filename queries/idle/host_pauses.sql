-- Host stalls: times of at least 2 ms without any recorded activity on the host.
-- During a stall, no thread has an open op, runtime call, wait, or profiler overhead. A range or Python call of a
-- launching thread counts as activity only if it contains no op or runtime call. A stall ends at the latest when the
-- next step starts. Time after the last launch does not count. The place of a stall is the next op. A stall is repeated
-- if more than half of the steps have a stall before that op.
--
-- Kind:     table
-- Created:  on demand
-- Columns:
--   trace_id INTEGER -> trace, start_ns BIGINT, end_ns BIGINT
--   step         BIGINT -> step_ranges  step at the start of the stall; NULL outside steps
--   into_ns      BIGINT                 time from the start of the step to the stall, ns
--   place        VARCHAR                name of the next op; NULL if none follows
--   step_count   BIGINT                 number of steps with a stall at this place; without steps, number of stalls
--   is_repeated  BOOLEAN                more than half of the steps stall at this place; without steps, at least two stalls
-- Invariant: end_ns - start_ns >= 2000000

WITH last_launch AS (
    SELECT trace_id, max(ts_ns) AS last_ns
    FROM launch
    GROUP BY trace_id
),

launching AS (
    SELECT DISTINCT trace_id, pid, tid
    FROM launch
),

act AS MATERIALIZED (
    SELECT trace_id, pid, tid, event_id, ts_ns, dur_ns
    FROM event
    WHERE tid IS NOT NULL AND (is_op(category) OR is_launch_call(category))
),

named AS (
    SELECT e.trace_id, e.pid, e.tid, e.event_id, e.ts_ns, e.dur_ns
    FROM event AS e
    INNER JOIN launching USING (trace_id, pid, tid)
    WHERE e.dur_ns > 0 AND (is_annotation(e.category) OR is_python_call(e.category))
),

busy AS (
    SELECT trace_id AS part, event_id AS id, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
    FROM act
    UNION ALL
    SELECT n.trace_id, n.event_id, n.ts_ns, n.ts_ns + n.dur_ns
    FROM named AS n
    ASOF LEFT JOIN act AS a
        ON n.trace_id = a.trace_id AND n.pid = a.pid AND n.tid = a.tid AND n.ts_ns <= a.ts_ns
    WHERE a.ts_ns IS NULL OR a.ts_ns >= n.ts_ns + n.dur_ns
    UNION ALL
    SELECT trace_id, event_id, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
    FROM host_waits
    UNION ALL
    SELECT trace_id, event_id, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
    FROM event
    WHERE category = 'overhead'
    UNION ALL
    SELECT trace_id, -1 AS event_id, ts_ns AS start_ns, ts_ns AS end_ns
    FROM step_ranges
),

op AS (
    SELECT trace_id, ts_ns, min(name) AS name
    FROM event
    WHERE is_op(category)
    GROUP BY trace_id, ts_ns
),

pause AS MATERIALIZED (
    SELECT
        g.part AS trace_id, g.start_ns, g.end_ns, r.step,
        g.start_ns - r.ts_ns AS into_ns,
        o.name AS place
    FROM interval_gaps('busy') AS g
    INNER JOIN last_launch AS l ON g.part = l.trace_id AND g.end_ns <= l.last_ns
    ASOF LEFT JOIN step_ranges AS r ON g.part = r.trace_id AND g.start_ns >= r.ts_ns
    ASOF LEFT JOIN op AS o ON g.part = o.trace_id AND g.end_ns <= o.ts_ns
    WHERE g.end_ns - g.start_ns >= min_host_stall_ns()
),

-- Stalls outside steps have no step number, so count the stalls instead.
counted AS (
    SELECT trace_id, place, coalesce(nullif(count(DISTINCT step), 0), count(*)) AS step_count
    FROM pause
    GROUP BY trace_id, place
),

steps_of AS (
    SELECT trace_id, count(DISTINCT step) AS step_count
    FROM step_ranges
    GROUP BY trace_id
)

SELECT
    p.trace_id, p.start_ns, p.end_ns, p.step, p.into_ns, p.place, c.step_count,
    coalesce(p.step IS NOT NULL AND c.step_count * 2 > s.step_count, c.step_count > 1)
        AS is_repeated
FROM pause AS p
INNER JOIN counted AS c
    ON p.trace_id = c.trace_id AND p.place IS NOT DISTINCT FROM c.place
LEFT JOIN steps_of AS s ON p.trace_id = s.trace_id
ORDER BY p.trace_id, p.start_ns
