-- Dependency edges between host spans.
-- Consecutive spans of a thread are linked. The weight is the thread's own time between them, without waits for another
-- thread, a posted collective, or a batch. The first span of a thread depends on the last span that ended before it, on
-- any thread.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER, source_node BIGINT, target_node BIGINT
--   kind  VARCHAR  host, thread, posted_wait, batch, or spawn
--   known_by VARCHAR, source_ns BIGINT, target_ns BIGINT, weight_ns BIGINT, loading_ns BIGINT
-- Invariant: 0 <= loading_ns AND loading_ns <= weight_ns

WITH host_span AS (
    SELECT
        trace_id, span_id, pid, tid, start_ns, end_ns,
        lag(span_id) OVER thread AS before_id,
        lag(end_ns) OVER thread AS before_end_ns
    FROM graph_span
    WHERE tid IS NOT NULL
    WINDOW thread AS (PARTITION BY trace_id, pid, tid ORDER BY start_ns, end_ns, span_id)
),

gap AS MATERIALIZED (
    SELECT
        (trace_id, pid, tid) AS part,
        span_id AS id,
        before_end_ns AS start_ns,
        start_ns AS end_ns
    FROM host_span
    WHERE start_ns > before_end_ns
),

host_wait AS (
    SELECT
        w.trace_id, w.event_id, w.kind,
        (w.trace_id, w.pid, w.tid) AS part,
        w.ts_ns + c.shift_ns AS start_ns,
        w.ts_ns + w.dur_ns + c.shift_ns AS end_ns
    FROM host_waits AS w
    INNER JOIN graph_clock AS c USING (trace_id)
),

loading AS (
    FROM host_wait
    WHERE kind = 'data_loading'
),

waiting AS (
    SELECT
        (w.trace_id, w.pid, w.waiting_tid) AS part,
        (w.trace_id, w.pid, w.tid) AS other_part,
        w.start_ns + c.shift_ns AS start_ns,
        w.end_ns + c.shift_ns AS end_ns
    FROM thread_waits AS w
    INNER JOIN graph_clock AS c USING (trace_id)
),

batch AS (
    SELECT
        s.span_id, s.end_ns, w.part, w.start_ns AS asked_ns,
        lag(s.span_id) OVER thread AS before_id,
        lag(s.end_ns) OVER thread AS before_end_ns
    FROM graph_span AS s
    INNER JOIN host_wait AS w USING (trace_id, event_id)
    WHERE s.name = 'batch' AND s.kind = 'mark'
    WINDOW thread AS (PARTITION BY w.part ORDER BY s.end_ns, s.span_id)
),

taken_batch AS (
    SELECT b.*, g.id AS target_id, g.end_ns AS target_ns
    FROM batch AS b
    ASOF INNER JOIN gap AS g ON b.part = g.part AND b.end_ns > g.start_ns
    WHERE b.end_ns <= g.end_ns
),

last_task AS (
    SELECT (trace_id, pid, post_tid) AS part, end_ns, max(span_id) AS span_id
    FROM graph_task
    GROUP BY ALL
),

-- If the Python stack shows the start of the wait, the time before it is the thread's own time.
shown_wait AS (
    SELECT part, start_ns, max(end_ns) AS end_ns
    FROM host_wait
    WHERE kind = 'comm_wait'
    GROUP BY part, start_ns
),

task_wait AS (
    SELECT
        g.part, g.id, t.span_id, t.end_ns,
        greatest(g.start_ns, coalesce(if(s.end_ns >= t.end_ns, s.start_ns, NULL), g.start_ns))
            AS start_ns,
        g.end_ns AS until_ns
    FROM gap AS g
    ASOF INNER JOIN last_task AS t ON g.part = t.part AND g.end_ns >= t.end_ns
    ASOF LEFT JOIN shown_wait AS s ON g.part = s.part AND t.end_ns >= s.start_ns
    WHERE
        t.end_ns > g.start_ns
        AND g.end_ns - t.end_ns <= greatest(100000, (g.end_ns - g.start_ns) // 4)
),

any_wait AS (
    SELECT part, start_ns, end_ns
    FROM waiting
    UNION ALL
    SELECT part, start_ns, end_ns
    FROM task_wait
    UNION ALL
    SELECT part, asked_ns AS start_ns, end_ns
    FROM taken_batch
),

last_wait AS (
    SELECT DISTINCT ON (part, end_ns) part, other_part, end_ns
    FROM waiting
    ORDER BY part, end_ns, other_part
),

last_of_thread AS (
    SELECT (trace_id, pid, tid) AS part, end_ns, max(span_id) AS span_id
    FROM host_span
    GROUP BY ALL
),

-- Marks have zero length and cause nothing.
last_of_trace AS (
    SELECT trace_id, end_ns, max(span_id) AS span_id
    FROM host_span
    WHERE start_ns < end_ns
    GROUP BY ALL
),

wait_end AS (
    SELECT g.part, g.id, g.end_ns, w.other_part, w.end_ns AS wait_end_ns
    FROM gap AS g
    ASOF INNER JOIN last_wait AS w ON g.part = w.part AND g.end_ns >= w.end_ns
    WHERE w.end_ns > g.start_ns
),

-- Causes of a span other than the previous span of its thread.
cause AS (
    SELECT
        'thread' AS kind, 'inferred' AS known_by, l.span_id AS source_id, h.id AS target_id,
        l.end_ns AS source_ns, h.end_ns AS target_ns
    FROM wait_end AS h
    ASOF INNER JOIN last_of_thread AS l ON h.other_part = l.part AND h.wait_end_ns >= l.end_ns
    UNION ALL
    SELECT 'posted_wait', 'inferred', span_id, id, end_ns, until_ns
    FROM task_wait
    UNION ALL
    SELECT 'batch', 'recorded', span_id, target_id, end_ns, target_ns
    FROM taken_batch
    UNION ALL
    SELECT 'batch', 'assumed', before_id, span_id, before_end_ns, end_ns
    FROM batch
    WHERE before_id IS NOT NULL
    UNION ALL
    SELECT 'spawn', 'assumed', l.span_id AS source_id, s.span_id AS target_id, l.end_ns, s.start_ns
    FROM host_span AS s
    ASOF INNER JOIN last_of_trace AS l ON s.trace_id = l.trace_id AND s.start_ns >= l.end_ns
    WHERE s.before_id IS NULL AND l.span_id <> s.span_id
)

SELECT
    s.trace_id,
    s.before_id * 2 + 1 AS source_node,
    s.span_id * 2 AS target_node,
    'host' AS kind,
    'recorded' AS known_by,
    s.before_end_ns AS source_ns,
    s.start_ns AS target_ns,
    s.start_ns - s.before_end_ns - coalesce(w.overlap_ns, 0) AS weight_ns,
    least(coalesce(l.overlap_ns, 0), weight_ns) AS loading_ns
FROM host_span AS s
LEFT JOIN interval_overlap('gap', 'loading') AS l ON s.span_id = l.id
LEFT JOIN interval_overlap('gap', 'any_wait') AS w ON s.span_id = w.id
WHERE s.before_id IS NOT NULL
UNION ALL BY NAME
SELECT
    s.trace_id,
    c.source_id * 2 + 1 AS source_node,
    c.target_id * 2 AS target_node,
    c.kind, c.known_by, c.source_ns, c.target_ns,
    c.target_ns - c.source_ns AS weight_ns,
    if(c.kind = 'batch' AND c.known_by = 'assumed', weight_ns, 0) AS loading_ns
FROM cause AS c
INNER JOIN graph_span AS s ON c.target_id = s.span_id
