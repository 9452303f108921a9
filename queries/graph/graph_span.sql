-- Spans of the dependency graph: host calls, device events, and marks, on a common clock.
-- Marks have zero length: starts and ends of steps and threads, and batches from data-loader workers. Spans of a thread
-- never overlap. A collective on a backend thread may be recorded as too long, because the thread needs a core to end
-- it. If the waiting thread continued earlier, the span ends when that thread continued.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id  INTEGER -> trace
--   span_id   BIGINT   number over all traces, from 1
--   kind      VARCHAR  call, work, or mark
--   event_id BIGINT -> event, piece BIGINT, pid BIGINT, tid BIGINT, device VARCHAR, stream BIGINT
--   start_ns BIGINT, end_ns BIGINT
--   name      VARCHAR  name of the call or device event; or step start, step end, thread start, thread end, or batch
--   class VARCHAR, work_kind VARCHAR, launch_id BIGINT
--   is_first  BOOLEAN  the device event is the first of its launch
--   correlation  BIGINT
--   wait      VARCHAR  kind of the wait, as in host_waits; NULL if the call does not wait
--   step      BIGINT
-- Invariant: start_ns <= end_ns

-- Calls are launches, waits, event and stream calls, and other calls of at least 8 µs. If calls are
-- nested, the outer one is used, unless only the inner one launches work.
WITH call AS (
    SELECT
        e.trace_id, e.event_id, e.pid, e.tid, e.ts_ns,
        e.ts_ns + e.dur_ns AS end_ns,
        e.name, e.correlation,
        l.launch_id IS NOT NULL AS is_launch,
        w.kind AS wait
    FROM event AS e
    LEFT JOIN launch AS l ON e.trace_id = l.trace_id AND e.event_id = l.launch_id
    LEFT JOIN host_waits AS w ON e.trace_id = w.trace_id AND e.event_id = w.event_id
    WHERE is_launch_call(e.category)
),

top_launch AS (
    SELECT *
    FROM call
    WHERE is_launch
    QUALIFY
        coalesce(gap_before_ns((trace_id, pid, tid), ts_ns, end_ns, (-end_ns, event_id)), 0) >= 0
),

other_call AS (
    SELECT c.*
    FROM call AS c
    ASOF LEFT JOIN top_launch AS l
        ON c.trace_id = l.trace_id AND c.pid = l.pid AND c.tid = l.tid AND c.end_ns > l.ts_ns
    WHERE
        NOT c.is_launch
        AND (
            c.wait IS NOT NULL
            OR c.end_ns - c.ts_ns >= 8000
            OR regexp_matches(c.name, 'Event(Record|Synchronize)|WaitEvent|Synchronize')
        )
        AND coalesce(l.end_ns <= c.ts_ns, TRUE)
    QUALIFY
        coalesce(gap_before_ns(
            (c.trace_id, c.pid, c.tid), c.ts_ns, c.end_ns, (-c.end_ns, c.event_id)
        ), 0) >= 0
),

host_span AS (
    SELECT
        trace_id, 'call' AS kind, event_id, 0 AS piece, pid, tid, ts_ns, end_ns, name, correlation,
        wait
    FROM (
        FROM top_launch
        UNION ALL
        FROM other_call
    ) AS top_call
    UNION ALL BY NAME
    SELECT
        e.trace_id, 'work' AS kind, e.event_id, e.piece, l.pid, l.tid, e.device, e.stream, e.ts_ns,
        e.end_ns, e.name, e.class, e.kind AS work_kind, e.event_id AS launch_id,
        e.piece = 0 AS is_first, k.step
    FROM device_events AS e
    INNER JOIN launch_link AS k USING (trace_id, event_id, piece)
    INNER JOIN launch AS l ON e.trace_id = l.trace_id AND e.event_id = l.launch_id
    WHERE e.device = 'cpu'
),

thread AS (
    SELECT trace_id, pid, tid, min(ts_ns) AS ts_ns, max(end_ns) AS end_ns
    FROM host_span
    GROUP BY trace_id, pid, tid
),

op_bounds AS (
    SELECT
        t.trace_id, t.pid, t.tid,
        arg_min(e.event_id, (e.ts_ns, e.event_id)) AS first_id,
        min(e.ts_ns) AS ts_ns,
        arg_max(e.event_id, (e.ts_ns + e.dur_ns, e.event_id)) AS last_id,
        max(e.ts_ns + e.dur_ns) AS end_ns
    FROM thread AS t
    INNER JOIN event AS e USING (trace_id, pid, tid)
    WHERE is_op(e.category)
    GROUP BY t.trace_id, t.pid, t.tid
),

-- A step may start before its range (Optimizer.step), or end before it ("ended T ns ago").
step_range AS (
    SELECT e.trace_id, min(e.event_id) AS event_id, e.pid, e.tid, s.ts_ns, s.end_ns, s.step
    FROM step_ranges AS s
    INNER JOIN event AS e
        ON
            s.trace_id = e.trace_id
            AND s.name = e.name
            AND if(starts_with(s.name, 'Optimizer.step#'), s.end_ns, s.ts_ns)
            = if(starts_with(e.name, 'Optimizer.step#'), e.ts_ns + e.dur_ns, e.ts_ns)
    SEMI JOIN thread AS t ON e.trace_id = t.trace_id AND e.pid = t.pid AND e.tid = t.tid
    WHERE is_annotation(e.category) OR is_op(e.category)
    GROUP BY ALL
),

marked AS (
    SELECT trace_id, event_id, pid, tid, ts_ns, 'step start' AS name, step
    FROM step_range
    UNION ALL
    SELECT trace_id, event_id, pid, tid, end_ns, 'step end', step
    FROM step_range
    UNION ALL
    SELECT b.trace_id, b.first_id, b.pid, b.tid, b.ts_ns, 'thread start', NULL
    FROM op_bounds AS b
    INNER JOIN thread AS t USING (trace_id, pid, tid)
    WHERE b.ts_ns < t.ts_ns
    UNION ALL
    SELECT b.trace_id, b.last_id, b.pid, b.tid, b.end_ns, 'thread end', NULL
    FROM op_bounds AS b
    INNER JOIN thread AS t USING (trace_id, pid, tid)
    WHERE b.end_ns > t.end_ns
),

on_thread AS (
    SELECT * FROM host_span
    UNION ALL BY NAME
    SELECT *, 'mark' AS kind, 0 AS piece, ts_ns AS end_ns FROM marked
),

poster AS (
    SELECT DISTINCT trace_id, pid, tid
    FROM host_span
    WHERE device = 'cpu' AND work_kind = 'comm' AND starts_with(name, 'c10d::')
),

pause AS MATERIALIZED (
    SELECT
        (trace_id, pid, tid) AS part, row_number() OVER () AS id,
        lag(end_ns) OVER thread AS start_ns,
        ts_ns AS end_ns
    FROM host_span
    SEMI JOIN poster USING (trace_id, pid, tid)
    WINDOW thread AS (PARTITION BY trace_id, pid, tid ORDER BY ts_ns, end_ns)
    QUALIFY start_ns < ts_ns
),

-- Pair each task with every thread of its process that posts collectives.
posted AS MATERIALIZED (
    SELECT
        (s.trace_id, s.pid, o.tid) AS part, row_number() OVER () AS id, s.trace_id, s.event_id,
        s.piece, s.ts_ns AS start_ns, s.end_ns
    FROM host_span AS s
    ANTI JOIN poster AS own USING (trace_id, pid, tid)
    INNER JOIN poster AS o ON s.trace_id = o.trace_id AND s.pid = o.pid
    WHERE s.device = 'cpu' AND s.work_kind = 'comm'
),

resumption AS (
    SELECT
        s.trace_id, s.event_id, s.piece,
        arg_max(p.end_ns, p.end_ns - p.start_ns) AS resumed_ns,
        max(p.end_ns - p.start_ns) AS pause_ns
    FROM interval_crossings('posted', 'pause') AS c
    INNER JOIN posted AS s ON c.left_id = s.id
    INNER JOIN pause AS p ON c.right_id = p.id
    GROUP BY s.trace_id, s.event_id, s.piece, s.end_ns
    HAVING resumed_ns < s.end_ns AND 4 * (s.end_ns - resumed_ns) <= pause_ns
),

thread_span AS (
    SELECT
        * EXCLUDE (ts_ns, end_ns, resumed_ns, pause_ns),
        greatest(ts_ns, coalesce(latest_end_before_ns(
            (trace_id, pid, tid), ts_ns, end_ns, (end_ns, event_id, piece)
        ), ts_ns)) AS start_ns,
        greatest(start_ns, coalesce(if(kind = 'work', resumed_ns, NULL), end_ns)) AS end_ns
    FROM on_thread
    LEFT JOIN resumption USING (trace_id, event_id, piece)
),

span AS (
    SELECT * FROM thread_span
    UNION ALL BY NAME
    SELECT
        e.trace_id, 'work' AS kind, e.event_id, e.piece, e.device, e.stream, e.ts_ns AS start_ns,
        e.end_ns, e.name, e.class, e.kind AS work_kind, k.launch_id,
        row_number() OVER (
            PARTITION BY e.trace_id, coalesce(k.launch_id, -e.event_id)
            ORDER BY e.ts_ns, e.event_id
        ) = 1 AS is_first,
        k.step
    FROM device_events AS e
    INNER JOIN launch_link AS k USING (trace_id, event_id, piece)
    WHERE e.device <> 'cpu'
    UNION ALL BY NAME
    -- Batches loaded by workers, if the wait is longer than the usual handover of a batch.
    SELECT
        e.trace_id, 'mark' AS kind, e.event_id, 0 AS piece,
        least(e.ts_ns + e.dur_ns, h.ts_ns) AS start_ns,
        start_ns AS end_ns,
        'batch' AS name
    FROM event AS e
    INNER JOIN host_waits AS w USING (trace_id, event_id)
    ASOF LEFT JOIN host_span AS h
        ON e.trace_id = h.trace_id AND e.pid = h.pid AND e.tid = h.tid AND e.ts_ns < h.ts_ns
    WHERE w.kind = 'data_loading' AND contains(e.name, 'MultiProcessing') AND e.dur_ns > 100000
)

SELECT
    s.trace_id,
    row_number() OVER (
        ORDER BY s.trace_id, s.start_ns, s.end_ns, s.kind, s.event_id, s.piece, s.name
    ) AS span_id,
    s.kind, s.event_id, s.piece, s.pid, s.tid, s.device, s.stream,
    s.start_ns + c.shift_ns AS start_ns,
    s.end_ns + c.shift_ns AS end_ns,
    s.name, s.class, s.work_kind, s.launch_id, s.is_first, s.correlation, s.wait, s.step
FROM span AS s
INNER JOIN graph_clock AS c USING (trace_id)
ORDER BY span_id
