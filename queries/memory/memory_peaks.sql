-- Peak memory and unused reserved memory of each device.
-- Reserved memory is unused because of caching and fragmentation.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR
--   peak_at_ns          BIGINT   time of the peak, ns since the first event of the trace
--   step                BIGINT   step of the peak
--   phase               VARCHAR  phase of the allocation that reached the peak; NULL if before the recording
--   allocated_bytes     BIGINT   memory in use, bytes
--   before_bytes        BIGINT   part of allocated_bytes from before the recording, bytes; negative if releases are missing
--   reserved_bytes      BIGINT   memory reserved by the allocator, bytes; NULL for the host
--   unused_bytes        BIGINT   reserved_bytes - allocated_bytes, bytes; NULL if reserved_bytes is less
--   unused_pct          DOUBLE   unused_bytes as a share of reserved_bytes, 0 to 100
--   max_reserved_bytes  BIGINT   maximum reserved memory, bytes
--   oom_bytes           BIGINT   largest allocation that failed (out of memory), bytes; NULL if none
--   block_count         BIGINT   number of blocks in use that were allocated during the recording
--   event_count         BIGINT   number of allocations and releases
-- Keep: rank, device, peak_at_ns, allocated_bytes, reserved_bytes, unused_bytes, unused_pct, before_bytes
-- Invariant: (unused_bytes = reserved_bytes - allocated_bytes AND unused_bytes >= 0) OR unused_bytes IS NULL
-- Invariant: block_count <= event_count
-- Empty: memory: the trace has no allocator events: record with profile_memory=True
-- Empty: the allocator events have no addresses or no totals

WITH device_peak AS (
    SELECT
        trace_id, device,
        arg_max(
            {
                'at_ns': ts_ns, 'step': step, 'phase': if(bytes > 0, phase, NULL),
                'reserved_bytes': reserved_bytes
            },
            (highest_bytes, -place)
        ) AS top,
        max(highest_bytes) AS allocated_bytes,
        max(reserved_bytes) AS max_reserved_bytes,
        coalesce(sum(bytes) FILTER (is_at_peak), 0)::BIGINT AS known_bytes,
        count(*) FILTER (is_at_peak) AS block_count,
        count(*) AS event_count
    FROM memory_event
    GROUP BY trace_id, device
),

failed AS (
    SELECT i.trace_id, d.device, max(try_cast(i.args ->> 'Bytes' AS BIGINT)) AS bytes
    FROM instant AS i
    INNER JOIN memory_devices() AS d
        ON
            i.trace_id = d.trace_id
            AND i.args ->> 'Device Type' = d.device_type::VARCHAR
            AND i.args ->> 'Device Id' = d.device_id::VARCHAR
    WHERE i.name = '[OutOfMemory]'
    GROUP BY ALL
)

SELECT
    t.rank, p.device,
    p.top.at_ns - t.first_ts_ns AS peak_at_ns,
    p.top.step, p.top.phase, p.allocated_bytes,
    p.allocated_bytes - p.known_bytes AS before_bytes,
    p.top.reserved_bytes,
    if(
        p.top.reserved_bytes >= p.allocated_bytes, p.top.reserved_bytes - p.allocated_bytes, NULL
    ) AS unused_bytes,
    100.0 * unused_bytes / nullif(p.top.reserved_bytes, 0) AS unused_pct,
    p.max_reserved_bytes,
    f.bytes AS oom_bytes,
    p.block_count, p.event_count
FROM device_peak AS p
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN failed AS f USING (trace_id, device)
ORDER BY t.rank NULLS LAST, p.trace_id, p.device
