-- How much memory of each device was in use at most, and how much did the allocator keep unused then?
-- The peak is the first moment of the most bytes in use, as the allocator's events tell ([memory]); what is reserved and
-- not in use at that moment is what fragmentation and caching cost. The most that was ever reserved stands beside it.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank                INTEGER  global rank
--   device              VARCHAR  number of the device as its kernels have it, or cpu: the host
--   peak_at_ns          BIGINT   the moment of the peak, ns since the first event of the trace
--   step                BIGINT   number of the step that it lies in
--   phase               VARCHAR  phase of the allocation that made it
--   allocated_bytes     BIGINT   in use then, bytes
--   before_bytes        BIGINT   part of it that was there when the recording began, bytes; negative where releases are missing
--   reserved_bytes      BIGINT   kept by the allocator then, bytes; NULL for the host, which keeps nothing
--   unused_bytes        BIGINT   reserved_bytes - allocated_bytes, bytes
--   unused_pct          DOUBLE   unused_bytes of reserved_bytes, 0 to 100
--   max_reserved_bytes  BIGINT   most that was kept at any time, bytes
--   oom_bytes           BIGINT   largest request that failed for want of memory, bytes; NULL for none
--   block_count         BIGINT   blocks in use at the peak that were allocated in the recording
--   event_count         BIGINT   allocations and releases of the recording
-- Keep: rank, device, peak_at_ns, allocated_bytes, reserved_bytes, unused_bytes, unused_pct, before_bytes
-- Invariant: unused_bytes = reserved_bytes - allocated_bytes OR unused_bytes IS NULL
-- Invariant: block_count <= event_count
-- Empty: memory: the trace has no events of an allocator: record them with profile_memory=True
-- Empty: the events of its allocator tell no addresses

WITH device_peak AS (
    SELECT
        trace_id, device,
        arg_max(
            {'at_ns': ts_ns, 'step': step, 'phase': phase, 'reserved_bytes': reserved_bytes},
            (allocated_bytes, -place)
        ) AS top,
        max(allocated_bytes) AS allocated_bytes,
        nullif(max(reserved_bytes), 0) AS max_reserved_bytes,
        coalesce(sum(bytes) FILTER (is_at_peak), 0)::BIGINT AS known_bytes,
        count(*) FILTER (is_at_peak) AS block_count,
        count(*) AS event_count
    FROM memory_event
    GROUP BY trace_id, device
),

failed AS (
    SELECT
        trace_id,
        args ->> 'Device Id' AS device,
        max((args ->> 'Bytes')::BIGINT) AS bytes
    FROM instant
    WHERE name = '[out of memory]'
    GROUP BY ALL
)

SELECT
    t.rank, p.device,
    p.top.at_ns - t.first_ts_ns AS peak_at_ns,
    p.top.step, p.top.phase, p.allocated_bytes,
    p.allocated_bytes - p.known_bytes AS before_bytes,
    if(p.max_reserved_bytes IS NULL, NULL, p.top.reserved_bytes) AS reserved_bytes,
    if(p.max_reserved_bytes IS NULL, NULL, p.top.reserved_bytes - p.allocated_bytes)
        AS unused_bytes,
    100.0 * (p.top.reserved_bytes - p.allocated_bytes) / nullif(p.top.reserved_bytes, 0)
        AS unused_pct,
    p.max_reserved_bytes,
    f.bytes AS oom_bytes,
    p.block_count, p.event_count
FROM device_peak AS p
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN failed AS f USING (trace_id, device)
ORDER BY t.rank NULLS LAST, p.trace_id, p.device
