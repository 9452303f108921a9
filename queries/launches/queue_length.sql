-- How much work lay queued in front of each stream?
-- A device event is queued from the start of its launch call until it starts on the device. A queue that is often
-- empty means that the host does not keep ahead. Means and shares are over the time from the first launch to the last
-- start on the stream. Work that was launched before the window is left out: when it was queued is not known.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: attributed_events, launch
-- Columns:
--   rank             INTEGER  global rank
--   device           VARCHAR  number of the device
--   stream           BIGINT   stream of the device
--   kernel_count     BIGINT   device events whose launch is in the trace
--   span_ns          BIGINT   from the first launch to the last start on the device, ns
--   mean_length      DOUBLE   mean number of queued device events over that time
--   max_length       BIGINT   most device events that were queued at once
--   empty_ns         BIGINT   time in which none was queued, ns
--   empty_pct        DOUBLE   empty_ns of span_ns, 0 to 100
--   over_1000_ns     BIGINT   time in which more than 1,000 were queued, ns: near 1,024, launches block
-- Invariant: 0 <= empty_ns AND empty_ns + over_1000_ns <= span_ns AND 0 < max_length

WITH queued AS (
    SELECT
        e.trace_id,
        e.device,
        e.stream,
        e.ts_ns AS start_ns,
        least(l.ts_ns, e.ts_ns) AS launch_ns
    FROM attributed_events AS e
    INNER JOIN launch AS l ON e.trace_id = l.trace_id AND e.launch_id = l.launch_id
    WHERE e.link = 'launch'
),

boundary AS (
    SELECT
        trace_id,
        device,
        stream,
        launch_ns AS at_ns,
        1 AS step
    FROM queued
    UNION ALL
    SELECT
        trace_id,
        device,
        stream,
        start_ns AS at_ns,
        -1 AS step
    FROM queued
),

swept AS (
    SELECT
        trace_id,
        device,
        stream,
        at_ns,
        sum(step) OVER stream_time AS length,
        coalesce(lead(at_ns) OVER stream_time - at_ns, 0) AS dur_ns
    FROM boundary
    WINDOW
        stream_time AS (
            PARTITION BY trace_id, device, stream ORDER BY at_ns, step DESC
            ROWS UNBOUNDED PRECEDING
        )
),

summed AS (
    SELECT
        trace_id,
        device,
        stream,
        count(*) // 2 AS kernel_count,
        sum(dur_ns)::BIGINT AS span_ns,
        sum(length::DOUBLE * dur_ns) AS length_ns,
        max(length)::BIGINT AS max_length,
        coalesce(sum(dur_ns) FILTER (length = 0), 0)::BIGINT AS empty_ns,
        coalesce(sum(dur_ns) FILTER (length > 1000), 0)::BIGINT AS over_1000_ns
    FROM swept
    GROUP BY trace_id, device, stream
)

SELECT
    t.rank,
    s.device,
    s.stream,
    s.kernel_count,
    s.span_ns,
    s.length_ns / nullif(s.span_ns, 0) AS mean_length,
    s.max_length,
    s.empty_ns,
    100.0 * s.empty_ns / nullif(s.span_ns, 0) AS empty_pct,
    s.over_1000_ns
FROM summed AS s
INNER JOIN trace AS t ON s.trace_id = t.trace_id
ORDER BY t.rank NULLS LAST, t.trace_id, s.device, s.stream
