-- Accelerator events with their launch, the previous event of their stream, and typical latencies and gaps.
-- Latencies come from launches on an idle stream. Gaps come from work that was launched well before the previous work
-- of the stream ended. Outliers are excluded.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER, span_id BIGINT, device VARCHAR, stream BIGINT, start_ns BIGINT, end_ns BIGINT
--   is_first BOOLEAN, call_span BIGINT, call_name VARCHAR, call_start_ns BIGINT, call_end_ns BIGINT
--   before_id BIGINT, before_start_ns BIGINT, before_end_ns BIGINT
--   latency_ns  BIGINT[]  quick, usual, and slow latency
--   gap_ns      BIGINT[]  quick, usual, and slow gap
--   usual_ns   BIGINT   median latency of all launches of the trace, ns

WITH call AS (
    SELECT trace_id, pid, tid, span_id, event_id, start_ns, end_ns, name
    FROM graph_span
    WHERE kind = 'call'
),

-- If launches are nested, use the outer one.
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
        coalesce(quantile_disc(i.ns, [0.1, 0.5, 0.9]), [6000, 6000, 6000]) AS latency_ns,
        latency_ns[2] AS usual_ns
    FROM (SELECT DISTINCT trace_id FROM work) AS t
    LEFT JOIN idle_launch AS i ON t.trace_id = i.trace_id AND i.ns BETWEEN 0 AND 99999
    GROUP BY t.trace_id
),

latency AS (
    SELECT
        trace_id, call_name, work_kind,
        list_transform(
            quantile_disc(ns, [0.1, 0.5, 0.9]) FILTER (is_usual),
            LAMBDA ns: least(ns, 2 * usual_ns)
        ) AS latency_ns
    FROM (
        SELECT *, ns BETWEEN 0 AND greatest(30000, 5 * usual_ns) AS is_usual
        FROM idle_launch
        INNER JOIN usual USING (trace_id)
    ) AS i
    GROUP BY trace_id, call_name, work_kind, usual_ns
    HAVING count(*) FILTER (is_usual) >= greatest(3, 0.3 * count(*))
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
        trace_id, device, stream, gap_key,
        quantile_disc(ns, [0.1, 0.5, 0.9]) FILTER (is_usual) AS gap_ns
    FROM (
        SELECT *, ns < greatest(20000, 5 * gap_ns[2]) AS is_usual
        FROM queued
        INNER JOIN usual_gap USING (trace_id)
    ) AS q
    GROUP BY trace_id, device, stream, gap_key
    HAVING count(*) FILTER (is_usual) >= greatest(3, 0.3 * count(*))
)

SELECT
    w.trace_id, w.span_id, w.device, w.stream, w.start_ns, w.end_ns, w.is_first, w.call_span,
    w.call_name, w.call_start_ns, w.call_end_ns, w.before_id, w.before_start_ns, w.before_end_ns,
    if(w.is_first, coalesce(l.latency_ns, u.latency_ns), [0, 0, 0])::BIGINT[] AS latency_ns,
    coalesce(g.gap_ns, a.gap_ns, [1000, 1000, 1000])::BIGINT[] AS gap_ns,
    u.usual_ns
FROM work AS w
INNER JOIN usual AS u USING (trace_id)
LEFT JOIN usual_gap AS a USING (trace_id)
LEFT JOIN latency AS l USING (trace_id, call_name, work_kind)
LEFT JOIN gap AS g USING (trace_id, device, stream, gap_key)
ORDER BY w.span_id
