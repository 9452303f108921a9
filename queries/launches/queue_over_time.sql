-- Length of the launch queue of each stream over time.
-- The time from the first launch on a stream to the start of its last event is divided into equal parts.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   queue_length per interval
-- Params:
--   points  BIGINT = 120  number of parts per stream
-- Columns:
--   rank         INTEGER
--   device       VARCHAR  device number
--   stream       BIGINT
--   start_ns     BIGINT   start, ns since the first event of the trace
--   dur_ns       BIGINT
--   mean_length  DOUBLE   mean number of queued events
--   max_length   BIGINT   maximum number of queued events
-- View:
--   page  lines=rank,device,stream
-- Invariant: dur_ns > 0 AND 0 <= mean_length AND mean_length <= max_length + 1e-9

WITH queued AS (
    SELECT *
    FROM queued_events()
),

-- Queue length after each boundary, and its maximum at the boundary.
time_point AS (
    SELECT
        part, at_ns,
        max(depth) FILTER (dur_ns > 0) AS highest,
        arg_max(depth, dur_ns) AS depth,
        max(dur_ns) AS dur_ns
    FROM interval_depth('queued')
    GROUP BY part, at_ns
),

-- Integral of the queue length since the first launch.
summed AS (
    SELECT
        *,
        coalesce(sum(depth::HUGEINT * dur_ns) OVER (
            PARTITION BY part ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS before_ns
    FROM time_point
),

extent AS (
    SELECT part, min(at_ns) AS first_ns, max(at_ns) - first_ns AS span_ns
    FROM time_point
    GROUP BY part
    HAVING span_ns > 0
),

slice AS (
    SELECT part, first_ns, span_ns, unnest(range($points)) AS number
    FROM extent
),

bounded AS (
    SELECT
        part, number,
        first_ns + ((number * span_ns::HUGEINT + $points - 1) // $points)::BIGINT AS start_ns,
        first_ns + (((number + 1) * span_ns::HUGEINT + $points - 1) // $points)::BIGINT AS end_ns
    FROM slice
    WHERE end_ns > start_ns
),

placed AS (
    SELECT
        m.part,
        least($points * (m.at_ns - x.first_ns)::HUGEINT // x.span_ns, $points - 1)::BIGINT
            AS number,
        m.highest
    FROM time_point AS m
    INNER JOIN extent AS x USING (part)
),

highest AS (
    SELECT part, number, max(highest) AS highest
    FROM placed
    GROUP BY part, number
),

sampled AS (
    SELECT
        b.part, b.number, b.start_ns, b.end_ns, s.depth AS first_depth,
        s.before_ns + s.depth::HUGEINT * (b.start_ns - s.at_ns) AS from_ns,
        e.before_ns + e.depth::HUGEINT * (b.end_ns - e.at_ns) AS to_ns
    FROM bounded AS b
    ASOF INNER JOIN summed AS s ON b.part = s.part AND b.start_ns >= s.at_ns
    ASOF INNER JOIN summed AS e ON b.part = e.part AND b.end_ns >= e.at_ns
)

SELECT
    t.rank, s.part.device, s.part.stream,
    s.start_ns - t.first_ts_ns AS start_ns,
    s.end_ns - s.start_ns AS dur_ns,
    (s.to_ns - s.from_ns)::DOUBLE / (s.end_ns - s.start_ns) AS mean_length,
    greatest(s.first_depth, coalesce(h.highest, 0)) AS max_length
FROM sampled AS s
INNER JOIN trace AS t ON s.part.trace_id = t.trace_id
LEFT JOIN highest AS h USING (part, number)
ORDER BY t.rank NULLS LAST, t.trace_id, s.part.device, s.part.stream, s.number
