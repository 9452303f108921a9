-- What was copied or set, which way, how much and how fast?
-- Bandwidth is bytes over the sum of durations, of those copies whose bytes the trace tells.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: device_events
-- Columns:
--   rank               INTEGER  global rank
--   device             VARCHAR  number of the device
--   direction          VARCHAR  class: memcpy_h2d, memcpy_d2h, memcpy_d2d, memset
--   name               VARCHAR  as the profiler says it, with the kinds of memory
--   copy_count         BIGINT   copies
--   kernel_ns          BIGINT   sum of their durations, ns
--   wall_ns            BIGINT   busy time that is theirs, ns
--   bytes              BIGINT   bytes moved, where known; NULL where not known for any
--   sized_count        BIGINT   copies whose bytes are known
--   bandwidth_bytes_per_s  DOUBLE  bytes / time of the copies whose bytes are known, bytes/s
-- Invariant: sized_count <= copy_count AND (bytes IS NULL) = (sized_count = 0)

SELECT
    t.rank,
    e.device,
    e.class AS direction,
    e.name,
    count(*) AS copy_count,
    sum(e.dur_ns)::BIGINT AS kernel_ns,
    sum(e.wall_ns)::BIGINT AS wall_ns,
    sum(e.bytes)::BIGINT AS bytes,
    count(e.bytes) AS sized_count,
    1e9 * sum(e.bytes)::BIGINT / nullif(sum(e.dur_ns) FILTER (e.bytes IS NOT NULL), 0)::BIGINT
        AS bandwidth_bytes_per_s
FROM device_events AS e
INNER JOIN trace AS t ON e.trace_id = t.trace_id
WHERE e.kind = 'memcpy' OR e.class = 'memset'
GROUP BY t.trace_id, t.rank, e.device, e.class, e.name
ORDER BY t.rank NULLS LAST, t.trace_id, e.device, kernel_ns DESC, e.class, e.name
