-- Dependency edges into accelerator events.
-- Causes are the launch, the previous event of the stream, and recorded or inferred stream events. Starts with more
-- than 15 µs unexplained have other causes: recent work of another stream, a long launch call, the busiest thread, or
-- work queued before the trace.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER, source_node BIGINT, target_node BIGINT
--   kind  VARCHAR  launch, stream, concurrent, event, long_launch, no_launch, or backlog
--   known_by VARCHAR, source_ns BIGINT, target_ns BIGINT, weight_ns BIGINT, quick_ns BIGINT
--   slow_ns BIGINT

WITH launched AS (
    SELECT
        (trace_id, device, stream) AS part, call_start_ns,
        arg_min(span_id, (start_ns, span_id)) AS first_id,
        arg_max(span_id, (end_ns, span_id)) AS last_id,
        max(end_ns) AS end_ns
    FROM graph_work
    WHERE call_span IS NOT NULL
    GROUP BY part, call_start_ns
),

call AS (
    SELECT
        trace_id, span_id, pid, tid, start_ns, correlation,
        regexp_matches(name, '[wW]aitEvent') AS is_wait,
        regexp_matches(name, 'EventRecord') AS is_record
    FROM graph_span
    WHERE kind = 'call'
),

-- The profiler sometimes links a wait to a later event record, which is impossible (kineto #1339).
recorded_wait AS (
    SELECT
        e.trace_id, w.span_id AS wait_id, w.start_ns AS wait_ns, r.start_ns AS record_ns,
        (e.trace_id, e.args ->> 'device', e.stream) AS part,
        (e.trace_id, e.args ->> 'device', try_cast(e.args ->> 'wait_on_stream' AS BIGINT))
            AS source_part
    FROM event AS e
    INNER JOIN call AS w ON e.trace_id = w.trace_id AND e.correlation = w.correlation
    INNER JOIN call AS r
        ON
            e.trace_id = r.trace_id
            AND try_cast(e.args ->> 'wait_on_cuda_event_record_corr_id' AS BIGINT) = r.correlation
    WHERE
        e.category = 'cuda_sync'
        AND e.name = 'Stream Wait Event'
        AND r.correlation < e.correlation
),

recorded_source AS (
    SELECT w.*, l.last_id, l.end_ns
    FROM recorded_wait AS w
    ASOF INNER JOIN launched AS l ON w.source_part = l.part AND w.record_ns >= l.call_start_ns
),

thread_call AS (
    SELECT
        c.trace_id, c.pid, c.tid, c.span_id, c.start_ns, c.is_wait, c.is_record,
        if(
            f.span_id IS NULL,
            NULL,
            {work_id: f.span_id, device: f.device, stream: f.stream, start_ns: c.start_ns}
        ) AS launch
    FROM call AS c
    LEFT JOIN graph_work AS f ON c.span_id = f.call_span AND f.is_first
),

main_stream AS (
    SELECT trace_id, pid, tid, mode(launch.stream) AS stream
    FROM thread_call
    GROUP BY trace_id, pid, tid
),

launched_before AS (
    SELECT
        *,
        any_value(launch) OVER before AS launch_before,
        max(CASE WHEN is_wait THEN start_ns END) OVER before AS wait_before_ns
    FROM thread_call
    WINDOW before AS (
        PARTITION BY trace_id, pid, tid
        ORDER BY start_ns DESC, span_id DESC
        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    )
),

-- A recorded event belongs to the stream of the previous launch. If the thread called a wait since
-- that launch, the event belongs to its main stream. That stream waited, or another one will wait
-- for it.
called_event AS (
    SELECT
        *,
        {
            device: launch_before.device,
            stream: if(
                is_record AND wait_before_ns > launch_before.start_ns,
                main_stream.stream,
                launch_before.stream
            ),
            at_ns: start_ns
        } AS event,
        any_value(CASE WHEN launch.stream <> launch_before.stream THEN launch END) OVER (
            PARTITION BY trace_id, pid, tid
            ORDER BY start_ns, span_id
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS next_change
    FROM launched_before
    INNER JOIN main_stream USING (trace_id, pid, tid)
),

-- A wait refers to the last recorded event. The waiting stream is the stream of the next launch, if
-- it differs from the stream of the event.
called_wait AS (
    SELECT
        trace_id, span_id, is_wait,
        coalesce(any_value(CASE WHEN is_record THEN event END) OVER before, event) AS source,
        any_value(
            CASE WHEN launch IS NOT NULL THEN {launch: launch, other: next_change} END
        ) OVER behind AS next
    FROM called_event
    WINDOW
        before AS (
            PARTITION BY trace_id, pid, tid
            ORDER BY start_ns DESC, span_id DESC
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ),
        behind AS (
            PARTITION BY trace_id, pid, tid
            ORDER BY start_ns, span_id
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        )
),

inferred_wait AS (
    SELECT DISTINCT
        c.trace_id, c.source,
        if(c.next.launch.stream <> c.source.stream, c.next.launch, c.next.other).work_id AS work_id
    FROM called_wait AS c
    ANTI JOIN recorded_wait AS r ON c.trace_id = r.trace_id AND c.span_id = r.wait_id
    WHERE c.is_wait
),

bound AS (
    SELECT
        w.trace_id, w.span_id, w.start_ns,
        w.call_span * 2 + is_behind::BIGINT AS source_node,
        if(is_behind, w.call_end_ns, w.call_start_ns) AS source_ns,
        'launch' AS kind,
        'recorded' AS known_by,
        if(
            is_behind, list_transform(w.latency_ns, LAMBDA ns: least(ns, 3000)), w.latency_ns
        ) AS weights_ns
    FROM (
        SELECT
            *,
            is_first
            AND call_end_ns - call_start_ns > greatest(20000, 3 * usual_ns)
            AND start_ns >= call_end_ns
            AND NOT regexp_matches(call_name, '(?i)sync|memcpy') AS is_behind
        FROM graph_work
        WHERE call_span IS NOT NULL
    ) AS w
    UNION ALL
    SELECT
        trace_id, span_id, start_ns,
        before_id * 2 + (start_ns >= before_end_ns - 3000)::BIGINT,
        if(start_ns >= before_end_ns - 3000, before_end_ns, before_start_ns),
        if(start_ns >= before_end_ns - 3000, 'stream', 'concurrent'),
        'recorded',
        if(start_ns >= before_end_ns - 3000, gap_ns, [0, 0, 0])
    FROM graph_work
    WHERE before_id IS NOT NULL
    UNION ALL
    SELECT
        r.trace_id, w.span_id, w.start_ns, r.last_id * 2 + 1, r.end_ns, 'event', 'recorded',
        w.gap_ns
    FROM recorded_source AS r
    ASOF INNER JOIN launched AS l ON r.part = l.part AND r.wait_ns <= l.call_start_ns
    INNER JOIN graph_work AS w ON l.first_id = w.span_id
    UNION ALL
    SELECT
        t.trace_id, w.span_id, w.start_ns, l.last_id * 2 + 1, l.end_ns, 'event', 'inferred',
        w.gap_ns
    FROM inferred_wait AS t
    ASOF INNER JOIN launched AS l
        ON
            (t.trace_id, t.source.device, t.source.stream) = l.part
            AND t.source.at_ns >= l.call_start_ns
    INNER JOIN graph_work AS w ON t.work_id = w.span_id
    WHERE t.source.device = w.device AND t.source.stream <> w.stream
),

-- Typical time from an event to the start of work that waited only for that event.
event_wait AS (
    SELECT b.trace_id, b.start_ns - b.source_ns AS ns
    FROM bound AS b
    INNER JOIN graph_work AS w USING (span_id)
    WHERE
        b.kind = 'event'
        AND b.start_ns - b.source_ns BETWEEN 0 AND 29999
        AND w.call_start_ns + 1.5 * w.usual_ns < b.source_ns
        AND coalesce(w.before_end_ns + w.gap_ns[2] <= b.source_ns, TRUE)
),

event_time AS (
    SELECT trace_id, quantile_disc(ns, [0.1, 0.5, 0.9]) AS ns
    FROM event_wait
    GROUP BY trace_id
    HAVING count(*) >= 3
),

early_bound AS MATERIALIZED (
    SELECT
        b.* REPLACE (
            list_transform(
                coalesce(e.ns, b.weights_ns), LAMBDA ns: least(ns, b.start_ns - b.source_ns)
            ) AS weights_ns
        )
    FROM bound AS b
    LEFT JOIN event_time AS e ON b.trace_id = e.trace_id AND b.kind = 'event'
    WHERE b.source_ns <= b.start_ns + 3000
),

expected AS (
    SELECT span_id, start_ns - max(source_ns + weights_ns[2]) AS late_ns
    FROM early_bound
    GROUP BY span_id, start_ns
),

late_work AS MATERIALIZED (
    SELECT
        w.*, e.late_ns,
        greatest(15000, least(150000, coalesce(e.late_ns, 0) // 10)) AS tolerance_ns
    FROM graph_work AS w
    LEFT JOIN expected AS e USING (span_id)
    WHERE coalesce(e.late_ns > 15000, TRUE)
),

-- Ends of work per device in time order, with the previous end on another stream.
stream_end AS (
    SELECT *, lag({stream: stream, span_id: span_id, end_ns: end_ns}) OVER on_device AS before
    FROM (
        SELECT trace_id, device, stream, end_ns, max(span_id) AS span_id
        FROM graph_work
        WHERE stream IS NOT NULL
        GROUP BY ALL
    ) AS ended
    WINDOW on_device AS (PARTITION BY trace_id, device ORDER BY end_ns, span_id)
),

other_end AS (
    SELECT
        *,
        any_value(CASE WHEN before.stream <> stream THEN before END) OVER (
            PARTITION BY trace_id, device
            ORDER BY end_ns DESC, span_id DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS other
    FROM stream_end
),

last_end AS (
    SELECT
        trace_id, device, end_ns,
        max(span_id) AS span_id,
        arg_max(stream, span_id) AS stream,
        arg_max(other, span_id) AS other
    FROM other_end
    GROUP BY trace_id, device, end_ns
),

-- Last event of another stream that ended before this one started.
ended_before AS (
    SELECT
        l.span_id,
        if(w.stream <> l.stream, w.span_id, w.other.span_id) AS source_id,
        if(w.stream <> l.stream, w.end_ns, w.other.end_ns) AS ended_ns
    FROM late_work AS l
    ASOF INNER JOIN last_end AS w
        ON l.trace_id = w.trace_id AND l.device = w.device AND l.start_ns >= w.end_ns
    WHERE l.stream IS NOT NULL AND l.start_ns - l.tolerance_ns < ended_ns
),

busiest_thread AS (
    SELECT trace_id, pid, tid
    FROM graph_span
    WHERE tid IS NOT NULL
    GROUP BY trace_id, pid, tid
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY count(*) DESC, tid) = 1
),

busiest_span AS (
    SELECT trace_id, start_ns, max(span_id) AS span_id, arg_max(end_ns, span_id) AS end_ns
    FROM graph_span
    SEMI JOIN busiest_thread USING (trace_id, pid, tid)
    GROUP BY trace_id, start_ns
),

explained AS (
    SELECT
        l.trace_id, l.start_ns, l.span_id, CASE
            WHEN e.source_id IS NOT NULL THEN 'event'
            WHEN l.call_span IS NULL THEN 'no_launch'
            WHEN l.before_id IS NULL THEN 'backlog'
            WHEN
                l.call_end_ns - l.call_start_ns > 20000
                AND l.start_ns BETWEEN l.call_start_ns AND l.call_end_ns + 5000
                THEN 'long_launch'
        END AS kind,
        CASE kind
            WHEN 'event' THEN e.source_id * 2 + 1
            WHEN 'no_launch'
                THEN
                    coalesce(
                        b.span_id * 2 + (b.end_ns <= l.start_ns - l.usual_ns)::BIGINT,
                        if(l.late_ns IS NULL, 0, NULL)
                    )
            WHEN 'backlog' THEN 0
            WHEN 'long_launch' THEN l.call_span * 2
        END AS source_node,
        CASE kind
            WHEN 'event' THEN e.ended_ns
            WHEN 'no_launch'
                THEN
                    CASE
                        WHEN b.span_id IS NULL THEN o.start_ns
                        WHEN b.end_ns <= l.start_ns - l.usual_ns THEN b.end_ns
                        ELSE b.start_ns
                    END
            WHEN 'backlog' THEN o.start_ns
            WHEN 'long_launch' THEN l.call_start_ns
        END AS source_ns,
        l.start_ns - source_ns AS ns,
        if(
            kind = 'event', list_transform(l.gap_ns, LAMBDA gap_ns: least(gap_ns, ns)), [ns, ns, ns]
        ) AS weights_ns
    FROM late_work AS l
    CROSS JOIN (SELECT min(start_ns) AS start_ns FROM graph_span) AS o
    LEFT JOIN ended_before AS e USING (span_id)
    ASOF LEFT JOIN busiest_span AS b
        ON l.trace_id = b.trace_id AND l.start_ns - l.usual_ns >= b.start_ns
)

SELECT
    trace_id, source_node, span_id * 2 AS target_node, kind, known_by, source_ns,
    start_ns AS target_ns,
    weights_ns[2] AS weight_ns, weights_ns[1] AS quick_ns, weights_ns[3] AS slow_ns
FROM (
    FROM early_bound
    UNION ALL BY NAME
    SELECT * EXCLUDE (ns), if(kind IN ('no_launch', 'backlog'), 'assumed', 'inferred') AS known_by
    FROM explained
    WHERE source_node IS NOT NULL
) AS e
