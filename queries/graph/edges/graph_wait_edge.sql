-- Dependency edges into the ends of host calls: the call's own duration, and the device work that it waits for.
-- Covers blocking copies, synchronizations, launches into a full queue, and calls such as cudaFree that end just when
-- work ends. The own duration of a call that waited is assumed to be the median of equally named calls without a wait.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER, source_node BIGINT, target_node BIGINT
--   kind  VARCHAR  call, copy, sync, queue, or implicit_sync
--   known_by VARCHAR, source_ns BIGINT, target_ns BIGINT, weight_ns BIGINT

WITH call AS MATERIALIZED (
    SELECT
        trace_id, span_id, pid, start_ns, end_ns, name, correlation, wait,
        end_ns - start_ns AS dur_ns,
        quantile_disc(end_ns - start_ns, 0.1) OVER (PARTITION BY trace_id, name) AS least_ns,
        CASE
            WHEN regexp_matches(name, '(?i)(device|ctx|context)sync') THEN 'device'
            WHEN regexp_matches(name, '(?i)eventsynchronize') THEN 'event'
            WHEN regexp_matches(name, '(?i)synchronize') THEN 'stream'
        END AS scope
    FROM graph_span
    WHERE kind = 'call'
),

own_work AS (
    SELECT
        call_span,
        max(end_ns) AS end_ns,
        arg_max(span_id, (end_ns, span_id)) AS span_id,
        arg_max(start_ns, (end_ns, span_id)) AS start_ns
    FROM graph_work
    WHERE call_span IS NOT NULL
    GROUP BY call_span
),

blocking_copy AS (
    SELECT
        c.span_id,
        o.span_id * 2 + (o.end_ns <= c.end_ns + 3000)::BIGINT AS source_node,
        if(o.end_ns <= c.end_ns + 3000, o.end_ns, o.start_ns) AS source_ns,
        'copy' AS kind,
        'recorded' AS known_by
    FROM call AS c
    INNER JOIN own_work AS o ON c.span_id = o.call_span
    WHERE
        c.wait IN ('copy', 'sync')
        AND (
            c.end_ns - o.end_ns BETWEEN -3000 AND 999999
            OR (c.dur_ns > 30000 AND c.end_ns - o.start_ns BETWEEN -3000 AND 999999)
        )
),

-- A file may contain several processes; each one waits only for its own work.
stream AS (
    SELECT DISTINCT c.trace_id, c.pid, (w.trace_id, w.device, w.stream) AS part, w.stream
    FROM graph_work AS w
    INNER JOIN call AS c ON w.call_span = c.span_id
),

in_order AS (
    SELECT
        (trace_id, device, stream) AS part, span_id, call_span, call_start_ns, start_ns, end_ns,
        row_number() OVER (PARTITION BY part ORDER BY call_start_ns, start_ns, span_id) AS number,
        row_number() OVER (PARTITION BY part ORDER BY start_ns, call_start_ns, span_id)
            AS start_number
    FROM graph_work
    WHERE call_span IS NOT NULL
),

last_launched AS (
    SELECT
        part, call_start_ns,
        arg_max(span_id, number) AS span_id,
        arg_max(end_ns, number) AS end_ns
    FROM in_order
    GROUP BY part, call_start_ns
),

last_ended AS (
    SELECT part, end_ns, max(span_id) AS span_id, max(call_start_ns) AS call_start_ns
    FROM in_order
    GROUP BY part, end_ns
),

recorded_sync AS (
    SELECT trace_id, correlation, min(stream) AS stream
    FROM event
    WHERE category = 'cuda_sync' AND name IN ('Stream Sync', 'Stream Synchronize')
    GROUP BY trace_id, correlation
),

stream_sync AS (
    SELECT
        c.trace_id, c.span_id, c.start_ns, c.end_ns, c.scope, s.part,
        r.stream IS NOT NULL OR c.scope = 'device' AS is_recorded
    FROM call AS c
    INNER JOIN stream AS s USING (trace_id, pid)
    LEFT JOIN recorded_sync AS r USING (trace_id, correlation)
    WHERE c.scope IS NOT NULL AND coalesce(r.stream = s.stream, TRUE)
),

synced AS (
    SELECT c.*, l.span_id AS work_id, l.end_ns AS work_end_ns, l.call_start_ns
    FROM stream_sync AS c
    ASOF INNER JOIN last_launched AS l ON c.part = l.part AND c.start_ns >= l.call_start_ns
    WHERE c.scope <> 'event' AND l.end_ns <= c.end_ns + 3000
    UNION ALL BY NAME
    SELECT c.*, l.span_id AS work_id, l.end_ns AS work_end_ns, l.call_start_ns
    FROM stream_sync AS c
    ASOF INNER JOIN last_ended AS l ON c.part = l.part AND c.end_ns + 3000 >= l.end_ns
    WHERE c.scope = 'event' AND l.call_start_ns < c.start_ns
),

-- If the stream is not recorded, use the stream whose work ended during the call, or else the
-- stream that was used last.
synchronisation AS (
    SELECT
        span_id,
        work_id * 2 + 1 AS source_node,
        work_end_ns AS source_ns,
        'sync' AS kind,
        if(
            is_recorded OR count(*) OVER (PARTITION BY span_id) = 1, 'recorded', 'inferred'
        ) AS known_by
    FROM synced
    QUALIFY
        is_recorded
        OR row_number() OVER (
            PARTITION BY span_id
            ORDER BY
                work_end_ns > start_ns DESC,
                if(work_end_ns > start_ns, work_end_ns, call_start_ns) DESC,
                work_id
        ) = 1
        AND (work_end_ns > start_ns OR scope <> 'event' OR count(*) OVER (PARTITION BY span_id) = 1)
),

-- Queue length at each launch: work of the stream that was launched earlier but had not started.
queued AS (
    SELECT
        c.trace_id, o.part, o.call_span, o.number,
        c.dur_ns, c.least_ns, c.start_ns, c.end_ns,
        o.number - 1 - coalesce(s.start_number, 0) AS queue_length,
        max(queue_length) OVER (PARTITION BY c.trace_id) AS longest,
        contains(lower(c.name), 'memcpy') AS is_copy
    FROM in_order AS o
    INNER JOIN call AS c ON o.call_span = c.span_id
    ASOF LEFT JOIN in_order AS s ON o.part = s.part AND o.call_start_ns >= s.start_ns
),

blocked AS (
    SELECT *, quantile_disc(queue_length, 0.5) OVER (PARTITION BY trace_id) AS middle
    FROM queued
    WHERE
        NOT is_copy
        AND dur_ns > greatest(15000, 4 * least_ns)
        AND queue_length >= greatest(16, longest // 2)
),

capacity AS (
    SELECT trace_id, any_value(middle) AS capacity
    FROM blocked
    GROUP BY trace_id
    HAVING
        count(*) >= 5
        AND avg((queue_length BETWEEN 0.95 * middle AND 1.05 * middle)::INTEGER) >= 0.8
),

full_queue AS (
    SELECT
        b.call_span AS span_id,
        s.span_id * 2 AS source_node,
        s.start_ns AS source_ns,
        'queue' AS kind,
        'inferred' AS known_by
    FROM blocked AS b
    INNER JOIN capacity AS q USING (trace_id)
    ASOF INNER JOIN in_order AS s ON b.part = s.part AND b.end_ns + 3000 >= s.start_ns
    WHERE b.queue_length >= 0.8 * q.capacity AND s.start_ns > b.start_ns - 3000
),

any_end AS (
    SELECT
        trace_id, end_ns, max(span_id) AS span_id, min(call_start_ns) AS call_start_ns
    FROM graph_work
    GROUP BY trace_id, end_ns
),

implicit AS (
    SELECT
        c.span_id,
        e.span_id * 2 + 1 AS source_node,
        e.end_ns AS source_ns,
        'implicit_sync' AS kind,
        'inferred' AS known_by
    FROM call AS c
    ASOF INNER JOIN any_end AS e ON c.trace_id = e.trace_id AND c.end_ns + 3000 >= e.end_ns
    ANTI JOIN own_work AS o ON c.span_id = o.call_span
    WHERE
        c.scope IS NULL
        AND c.dur_ns > 20000
        AND NOT contains(lower(c.name), 'query')
        AND e.end_ns > c.start_ns
        AND c.end_ns - e.end_ns < greatest(50000, c.dur_ns // 10)
        AND e.call_start_ns < c.start_ns
),

wait AS MATERIALIZED (
    SELECT * FROM blocking_copy
    UNION ALL
    SELECT * FROM synchronisation
    UNION ALL
    SELECT * FROM full_queue
    UNION ALL
    SELECT * FROM implicit
),

waited_call AS MATERIALIZED (
    SELECT
        span_id,
        max(source_ns) AS source_ns,
        max(kind) AS kind
    FROM wait
    GROUP BY span_id
),

judged AS (
    SELECT
        c.*, w.kind, w.source_ns,
        coalesce(w.source_ns > c.start_ns + 2000 OR w.kind = 'queue', FALSE) AS has_waited
    FROM call AS c
    LEFT JOIN waited_call AS w USING (span_id)
),

own_time AS (
    SELECT
        *,
        coalesce(
            median(dur_ns) FILTER (WHERE NOT has_waited) OVER (PARTITION BY trace_id, name), 6000
        )::BIGINT AS usual_ns,
        coalesce(
            median(end_ns - source_ns) FILTER (WHERE has_waited)
                OVER (PARTITION BY trace_id, name, kind),
            2000
        )::BIGINT AS tail_ns
    FROM judged
)

SELECT
    trace_id,
    span_id * 2 AS source_node,
    span_id * 2 + 1 AS target_node,
    'call' AS kind,
    'recorded' AS known_by,
    start_ns AS source_ns,
    end_ns AS target_ns,
    CASE
        WHEN kind = 'queue' THEN least_ns
        WHEN has_waited THEN least(dur_ns, usual_ns, 20000)
        ELSE dur_ns
    END AS weight_ns
FROM own_time
UNION ALL
SELECT
    o.trace_id, w.source_node, w.span_id * 2 + 1, w.kind, w.known_by, w.source_ns, o.end_ns,
    if(o.has_waited, least(greatest(o.tail_ns, 0), o.end_ns - w.source_ns), 0)
FROM wait AS w
INNER JOIN own_time AS o USING (span_id)
WHERE w.source_ns <= o.end_ns + 3000
UNION ALL
-- Launches that did not block may block if a change makes the host faster.
SELECT
    q.trace_id, b.span_id * 2, q.call_span * 2 + 1, 'queue', 'assumed', b.start_ns, q.end_ns, 0
FROM queued AS q
LEFT JOIN capacity AS c USING (trace_id)
INNER JOIN in_order AS b
    ON q.part = b.part AND q.number - coalesce(c.capacity, 1024) = b.number
WHERE b.start_ns <= q.end_ns
