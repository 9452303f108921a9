-- How much work lay queued in front of each stream?
-- A device event is queued from the start of its launch call, as nothing tells when within the call it was put there,
-- until it starts on the device. So one that starts at the instant at which the next call begins was not queued together
-- with what that launches, and one that starts while the next call lasts was. A queue that is often empty means that the
-- host does not keep ahead. Means and shares are over the time from the first launch to the last start on the stream.
-- Work that was launched before the window is left out: when it was queued is not known.
--
-- Kind:     analysis
-- Scope:    trace
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
