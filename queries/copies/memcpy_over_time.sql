-- Copy and memset rate over time, by direction and device.
-- The device window is divided into equal parts. A copy is assumed to transfer its bytes evenly over its duration, so
-- bytes add up to the bytes in `memcpy`. Rates are means over the part, including idle time.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   memcpy per interval
-- Params:
--   points  BIGINT = 120  number of parts per device
-- Columns:
--   rank         INTEGER
--   device       VARCHAR  device number
--   direction    VARCHAR
--   start_ns     BIGINT   start, ns since the first event of the trace
--   dur_ns BIGINT, copy_count BIGINT
--   busy_ns      BIGINT   sum of durations within the part, ns; overlap counts twice
--   bytes        DOUBLE   bytes moved; NULL if unknown
--   bytes_per_s  DOUBLE   bytes / dur_ns, bytes/s
-- Invariant: dur_ns > 0 AND copy_count >= 1 AND busy_ns >= 0 AND (bytes IS NULL OR bytes >= 0)
-- Empty: no copies or memsets were recorded

WITH copies AS (
    SELECT
        e.trace_id, e.device, e.class AS direction, e.event_id, e.bytes, e.dur_ns, w.window_ns,
        e.ts_ns - w.start_ns AS from_ns,
        greatest(e.end_ns - w.start_ns, from_ns + 1) AS to_ns,
        -- First and last part in which the copy runs. A zero-length event belongs to its first
        -- part.
        least(from_ns * $points::HUGEINT // w.window_ns, $points - 1) AS first_part,
        greatest(
            least((e.end_ns - w.start_ns) * $points::HUGEINT // w.window_ns, $points - 1),
            first_part
        ) AS last_part
    FROM device_events AS e
    INNER JOIN device_windows AS w USING (trace_id, device)
    WHERE (e.kind = 'memcpy' OR copy_of(e.class) = 'set') AND w.window_ns > 0
),

placed AS (
    SELECT *, unnest(range(first_part::BIGINT, last_part::BIGINT + 1)) AS part
    FROM copies
),

-- Parts start at integral ns.
bounded AS (
    SELECT
        *,
        ((part * window_ns::HUGEINT + $points - 1) // $points)::BIGINT AS part_ns,
        (((part + 1) * window_ns::HUGEINT + $points - 1) // $points)::BIGINT AS until_ns,
        CASE
            WHEN first_part = last_part THEN to_ns - from_ns
            ELSE greatest(least(until_ns, to_ns) - greatest(part_ns, from_ns), 0)
        END AS inside_ns
    FROM placed
)

SELECT
    w.rank, b.device, b.direction,
    b.part_ns + w.start_ns - t.first_ts_ns AS start_ns,
    b.until_ns - b.part_ns AS dur_ns,
    count(*) AS copy_count,
    sum(least(b.inside_ns, b.dur_ns))::BIGINT AS busy_ns,
    sum(b.bytes * b.inside_ns / (b.to_ns - b.from_ns) ORDER BY b.event_id) AS bytes,
    1e9 * sum(b.bytes * b.inside_ns / (b.to_ns - b.from_ns) ORDER BY b.event_id)
    / (b.until_ns - b.part_ns) AS bytes_per_s
FROM bounded AS b
INNER JOIN device_windows AS w USING (trace_id, device)
INNER JOIN trace AS t USING (trace_id)
WHERE b.until_ns > b.part_ns AND b.inside_ns > 0
GROUP BY
    t.trace_id, w.rank, b.device, b.direction, b.part_ns, b.until_ns, w.start_ns, t.first_ts_ns
ORDER BY w.rank NULLS LAST, t.trace_id, b.device, b.direction, b.part_ns
