-- Memory in use over time by category, per device.
-- The time from the first to the last allocator event of a device is divided into equal parts. Rows show the peak of
-- each part, and the categories add up to the memory in use.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   points  BIGINT = 100  number of parts per device
-- Columns:
--   rank INTEGER, device VARCHAR
--   at_ns            BIGINT   time of the peak, ns since the first event of the trace
--   category         VARCHAR  as in memory_peak
--   bytes            BIGINT   memory in use by the category, bytes
--   allocated_bytes  BIGINT   memory in use in total, bytes
--   reserved_bytes   BIGINT   memory reserved by the allocator, bytes; NULL for the host
-- Invariant: bytes >= 0 OR category = '(before the recording)'
-- Empty: memory: the trace has no allocator events: record with profile_memory=True
-- Empty: the allocator events have no addresses or no totals

WITH span AS (
    SELECT trace_id, device, min(ts_ns) AS start_ns, max(ts_ns) - min(ts_ns) + 1 AS span_ns
    FROM memory_event
    GROUP BY trace_id, device
),

time_point AS (
    SELECT
        e.trace_id, e.device,
        max(e.highest_bytes) AS allocated_bytes,
        max_by(
            e.place - (e.highest_bytes > e.allocated_bytes)::INTEGER, (e.highest_bytes, -e.place)
        ) AS place,
        max_by(e.ts_ns, (e.highest_bytes, -e.place)) AS at_ns,
        max_by(e.reserved_bytes, (e.highest_bytes, -e.place)) AS reserved_bytes
    FROM memory_event AS e
    INNER JOIN span AS s USING (trace_id, device)
    GROUP BY e.trace_id, e.device, ($points * (e.ts_ns - s.start_ns)::HUGEINT) // s.span_ns
),

change AS (
    SELECT trace_id, device, category, place, bytes
    FROM memory_event
    WHERE bytes > 0
    UNION ALL
    SELECT trace_id, device, category, end_place AS place, -bytes AS bytes
    FROM memory_event
    WHERE end_place IS NOT NULL
),

total AS (
    SELECT DISTINCT
        trace_id, device, category, place,
        sum(bytes) OVER (PARTITION BY trace_id, device, category ORDER BY place) AS bytes
    FROM change
),

kind AS (SELECT DISTINCT trace_id, device, category FROM change),

listed AS (
    SELECT m.*, k.category
    FROM time_point AS m
    INNER JOIN kind AS k USING (trace_id, device)
),

category_memory AS (
    SELECT l.*, coalesce(t.bytes, 0) AS bytes
    FROM listed AS l
    ASOF LEFT JOIN total AS t
        ON
            l.trace_id = t.trace_id
            AND l.device = t.device
            AND l.category = t.category
            AND l.place >= t.place
),

known AS (
    SELECT trace_id, device, place, sum(bytes) AS bytes
    FROM category_memory
    GROUP BY trace_id, device, place
),

result AS (
    SELECT * FROM category_memory
    UNION ALL BY NAME
    SELECT
        m.*,
        '(before the recording)' AS category,
        m.allocated_bytes - coalesce(k.bytes, 0) AS bytes
    FROM time_point AS m
    LEFT JOIN known AS k USING (trace_id, device, place)
)

SELECT
    t.rank, f.device,
    f.at_ns - t.first_ts_ns AS at_ns,
    f.category,
    f.bytes::BIGINT AS bytes,
    f.allocated_bytes, f.reserved_bytes
FROM result AS f
INNER JOIN trace AS t USING (trace_id)
ORDER BY t.rank NULLS LAST, f.trace_id, f.device, at_ns, f.category
