-- What does each work of an accelerator follow, on its stream and from its launch, and how long does that take as a rule?
-- What is usual is told by the trace: the latency of a launch by launches on an idle stream, by call and kind of work; the
-- gap between two works of a stream by works that were launched long before the one before them ended. Of each the
-- tenth, the fiftieth and the ninetieth percentile, without what is far beyond the rest.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id          INTEGER  the trace
--   span_id           BIGINT   the span of the work
--   device            VARCHAR  device
--   stream            BIGINT   stream
--   start_ns          BIGINT   start, ns
--   end_ns            BIGINT   end, ns
--   launch_id         BIGINT   its launch
--   is_first          BOOLEAN  the first work of its launch
--   call_span         BIGINT   the span of its launch; NULL where it is not in the trace
--   call_name         VARCHAR  the call
--   call_start_ns     BIGINT   start of that call, ns
--   call_end_ns       BIGINT   end of that call, ns
--   before_id         BIGINT   the work before it on its stream
--   before_start_ns   BIGINT   its start, ns
--   before_end_ns     BIGINT   its end, ns
--   quick_latency_ns  BIGINT   from launch to start, tenth percentile, ns
--   latency_ns        BIGINT   the median, ns
--   slow_latency_ns   BIGINT   the ninetieth percentile, ns
--   quick_gap_ns      BIGINT   from end to start on the stream, tenth percentile, ns
--   gap_ns            BIGINT   the median, ns
--   slow_gap_ns       BIGINT   the ninetieth percentile, ns
--   usual_ns          BIGINT   median latency of all launches of the trace, ns

WITH call AS (
    SELECT trace_id, pid, tid, span_id, event_id, start_ns, end_ns, name
    FROM graph_span
    WHERE kind = 'call'
),

-- A launch inside of another launch is that one.
launching AS (
    SELECT l.trace_id, l.launch_id, c.span_id, c.start_ns, c.end_ns, c.name
    FROM launch AS l
    INNER JOIN graph_clock AS k USING (trace_id)
    ASOF INNER JOIN call AS c
        ON
            l.trace_id = c.trace_id
            AND l.pid = c.pid
            AND l.tid = c.tid
            AND l.ts_ns + k.shift_ns >= c.start_ns
    WHERE c.event_id = l.launch_id OR c.end_ns >= l.end_ns + k.shift_ns
),

work AS MATERIALIZED (
    SELECT
        s.trace_id, s.span_id, s.device, s.stream, s.class, s.work_kind, s.start_ns, s.end_ns,
        s.launch_id, s.is_first,
        l.span_id AS call_span, l.name AS call_name, l.start_ns AS call_start_ns,
        l.end_ns AS call_end_ns,
        lag(s.span_id) OVER stream AS before_id,
        lag(s.start_ns) OVER stream AS before_start_ns,
        lag(s.end_ns) OVER stream AS before_end_ns,
        latest_end_before_ns(
            (s.trace_id, s.device, s.stream), s.start_ns, s.end_ns, (s.end_ns, s.span_id)
        ) AS stream_end_ns,
        if(s.is_first, if(s.work_kind = 'compute', 'kernel', s.class), 'next') AS gap_key
    FROM graph_span AS s
    LEFT JOIN launching AS l USING (trace_id, launch_id)
    WHERE s.kind = 'work' AND s.tid IS NULL
    WINDOW stream AS (
        PARTITION BY s.trace_id, s.device, s.stream ORDER BY s.start_ns, s.end_ns, s.span_id
    )
),

idle_launch AS (
    SELECT trace_id, call_name, work_kind, start_ns - call_start_ns AS ns
    FROM work
    WHERE is_first AND call_span IS NOT NULL AND coalesce(stream_end_ns < call_start_ns, TRUE)
),

usual AS (
    SELECT
        t.trace_id,
        coalesce(
            quantile_disc(i.ns, 0.5) FILTER (WHERE i.ns BETWEEN 0 AND 99999), 6000
        ) AS usual_ns,
        coalesce(
            quantile_disc(i.ns, [0.1, 0.5, 0.9]) FILTER (WHERE i.ns BETWEEN 0 AND 99999),
            [6000, 6000, 6000]
        ) AS latency_ns
    FROM (SELECT DISTINCT trace_id FROM work) AS t
    LEFT JOIN idle_launch AS i USING (trace_id)
    GROUP BY t.trace_id
),

latency AS (
    SELECT
        i.trace_id, i.call_name, i.work_kind,
        list_transform(
            quantile_disc(i.ns, [0.1, 0.5, 0.9])
            FILTER (WHERE i.ns BETWEEN 0 AND greatest(30000, 5 * u.usual_ns)),
            LAMBDA ns: least(ns, 2 * u.usual_ns)
        ) AS latency_ns
    FROM idle_launch AS i
    INNER JOIN usual AS u USING (trace_id)
    GROUP BY i.trace_id, i.call_name, i.work_kind, u.usual_ns
    HAVING
        count(*) FILTER (WHERE i.ns BETWEEN 0 AND greatest(30000, 5 * u.usual_ns))
        >= greatest(3, 0.3 * count(*))
),

queued AS (
    SELECT w.trace_id, w.device, w.stream, w.gap_key, w.start_ns - w.stream_end_ns AS ns
    FROM work AS w
    INNER JOIN usual AS u USING (trace_id)
    WHERE
        w.start_ns >= w.stream_end_ns
        AND w.call_span IS NOT NULL
        AND (NOT w.is_first OR w.call_start_ns + 1.5 * u.usual_ns < w.stream_end_ns)
),

usual_gap AS (
    SELECT trace_id, quantile_disc(ns, [0.1, 0.5, 0.9]) AS gap_ns
    FROM queued
    WHERE ns < 30000
    GROUP BY trace_id
),

gap AS (
    SELECT
        q.trace_id, q.device, q.stream, q.gap_key,
        quantile_disc(q.ns, [0.1, 0.5, 0.9])
        FILTER (WHERE q.ns < greatest(20000, 5 * u.gap_ns[2])) AS gap_ns
    FROM queued AS q
    INNER JOIN usual_gap AS u USING (trace_id)
    GROUP BY q.trace_id, q.device, q.stream, q.gap_key, u.gap_ns
    HAVING
        count(*) FILTER (WHERE q.ns < greatest(20000, 5 * u.gap_ns[2]))
        >= greatest(3, 0.3 * count(*))
)

SELECT
    w.trace_id, w.span_id, w.device, w.stream, w.start_ns, w.end_ns, w.launch_id, w.is_first,
    w.call_span, w.call_name, w.call_start_ns, w.call_end_ns, w.before_id, w.before_start_ns,
    w.before_end_ns,
    if(w.is_first, coalesce(l.latency_ns[1], u.latency_ns[1]), 0)::BIGINT AS quick_latency_ns,
    if(w.is_first, coalesce(l.latency_ns[2], u.latency_ns[2]), 0)::BIGINT AS latency_ns,
    if(w.is_first, coalesce(l.latency_ns[3], u.latency_ns[3]), 0)::BIGINT AS slow_latency_ns,
    coalesce(g.gap_ns[1], a.gap_ns[1], 1000)::BIGINT AS quick_gap_ns,
    coalesce(g.gap_ns[2], a.gap_ns[2], 1000)::BIGINT AS gap_ns,
    coalesce(g.gap_ns[3], a.gap_ns[3], 1000)::BIGINT AS slow_gap_ns,
    u.usual_ns
FROM work AS w
INNER JOIN usual AS u USING (trace_id)
LEFT JOIN usual_gap AS a USING (trace_id)
LEFT JOIN latency AS l USING (trace_id, call_name, work_kind)
LEFT JOIN gap AS g USING (trace_id, device, stream, gap_key)
ORDER BY w.span_id
