-- GPU memory in use and reserved over time, per device.
-- Values come from allocator events (`[memory]`, recorded with profile_memory=True). The time of a device is divided
-- into equal parts. Each row shows the peak of one part; parts without events have no row.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   memory_timeline per interval
-- Params:
--   points  BIGINT = 1000  number of parts per device
-- Columns:
--   rank INTEGER, device VARCHAR
--   at_ns            BIGINT  time of the peak, ns since the first event of the trace
--   allocated_bytes  BIGINT  memory in use, bytes
--   reserved_bytes   BIGINT  memory reserved by the allocator, bytes; NULL for the host
--   event_count      BIGINT
-- View:
--   page  lines=rank,device
-- Invariant: event_count >= 1
-- Empty: memory: the trace has no allocator events: record with profile_memory=True
-- Empty: the allocator events have no totals

WITH allocator AS (
    SELECT
        m.trace_id, t.rank, t.first_ts_ns, d.device, m.event_id, m.ts_ns,
        known_reserved(d.device, m.total_allocated_bytes, m.total_reserved_bytes) AS reserved_bytes,
        greatest(
            m.total_allocated_bytes,
            -- The first event may release memory that was in use before the recording.
            if(row_number() OVER device = 1, m.total_allocated_bytes - m.bytes, NULL)
        ) AS allocated_bytes
    FROM memory AS m
    INNER JOIN trace AS t ON m.trace_id = t.trace_id
    INNER JOIN memory_devices() AS d
        ON
            m.trace_id = d.trace_id
            AND m.device_type IS NOT DISTINCT FROM d.device_type
            AND m.device_id IS NOT DISTINCT FROM d.device_id
    WHERE
        is_memory_size(m.total_allocated_bytes)
        AND is_memory_size(coalesce(m.bytes, 0))
        AND is_memory_size(coalesce(m.total_reserved_bytes, 0))
    WINDOW device AS (PARTITION BY m.trace_id, d.device ORDER BY m.ts_ns, m.event_id)
),

span AS (
    SELECT trace_id, device, min(ts_ns) AS start_ns, max(ts_ns) - min(ts_ns) + 1 AS span_ns
    FROM allocator
    GROUP BY trace_id, device
),

part AS (
    SELECT
        a.*,
        ($points * (a.ts_ns - s.start_ns)::HUGEINT) // s.span_ns AS part
    FROM allocator AS a
    INNER JOIN span AS s ON a.trace_id = s.trace_id AND a.device = s.device
),

peak AS (
    SELECT
        trace_id, rank, device, first_ts_ns,
        arg_max(
            {'at_ns': ts_ns, 'reserved_bytes': reserved_bytes},
            (allocated_bytes, -ts_ns, -event_id)
        ) AS top,
        max(allocated_bytes) AS allocated_bytes,
        count(*) AS event_count
    FROM part
    GROUP BY trace_id, rank, device, first_ts_ns, part
)

SELECT
    rank, device,
    top.at_ns - first_ts_ns AS at_ns,
    allocated_bytes, top.reserved_bytes, event_count
FROM peak
ORDER BY rank NULLS LAST, trace_id, device, at_ns
