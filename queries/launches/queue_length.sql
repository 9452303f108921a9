-- Length of the launch queue of each stream.
-- An event is queued from the start of its launch call (the exact enqueue time is unknown) until it starts on the
-- device. A queue that is often empty means that the host does not run ahead. Means and shares cover the time from the
-- first launch to the last start of an event. Work launched before the window is excluded.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank          INTEGER
--   device        VARCHAR  device number
--   stream        BIGINT
--   kernel_count  BIGINT   number of device events with a recorded launch
--   span_ns       BIGINT   time from the first launch to the last start, ns
--   mean_length   DOUBLE   mean number of queued events
--   max_length    BIGINT   maximum number of queued events
--   empty_ns      BIGINT   time with an empty queue, ns
--   empty_pct     DOUBLE   empty_ns as a share of span_ns, 0 to 100
--   over_1000_ns  BIGINT   time with more than 1,000 queued events, ns; launches block near 1,024
-- Invariant: 0 <= empty_ns AND empty_ns + over_1000_ns <= span_ns AND 0 <= max_length

WITH queued AS (
    SELECT *
    FROM queued_events()
),

summed AS (
    SELECT
        part.trace_id, part.device, part.stream,
        count(*) // 2 AS kernel_count,
        sum(dur_ns)::BIGINT AS span_ns,
        sum(depth::DOUBLE * dur_ns) AS length_ns,
        coalesce(max(depth) FILTER (dur_ns > 0), 0) AS max_length,
        coalesce(sum(dur_ns) FILTER (depth = 0), 0)::BIGINT AS empty_ns,
        coalesce(sum(dur_ns) FILTER (depth > 1000), 0)::BIGINT AS over_1000_ns
    FROM interval_depth('queued')
    GROUP BY part
)

SELECT
    t.rank, s.device, s.stream, s.kernel_count, s.span_ns,
    s.length_ns / nullif(s.span_ns, 0) AS mean_length,
    s.max_length, s.empty_ns,
    100.0 * s.empty_ns / nullif(s.span_ns, 0) AS empty_pct,
    s.over_1000_ns
FROM summed AS s
INNER JOIN trace AS t USING (trace_id)
ORDER BY t.rank NULLS LAST, t.trace_id, s.device, s.stream
