-- What was copied or set, which way, how much and how fast?
-- Bandwidth is bytes over the sum of durations, of those copies whose bytes the trace tells. The ceiling is the highest
-- rate at which tracekit bench copied in that direction on this very device, from or to the same kind of host memory.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    device_events WHERE kind = 'memcpy' OR copy_of(class) = 'set'
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
--   sized_ns           BIGINT   sum of the durations of the copies whose bytes are known, ns; NULL for none or 0
--   ceiling_bytes_per_s  DOUBLE   highest rate measured on the device for such copies, bytes/s
--   ceiling_pct          DOUBLE   bandwidth_bytes_per_s of that, 0 to 100 and more
--   ceiling_source       VARCHAR  the measurement
--   ceiling_reason       VARCHAR  why ceiling_pct is missing; NULL if it is not
-- Keep:     rank, device, direction, name, copy_count, kernel_ns, bytes, bandwidth_bytes_per_s, ceiling_pct
-- View:
--   breakdown  totals=memcpy_totals
-- Invariant: sized_count <= copy_count AND (bytes IS NULL) = (sized_count = 0)
-- Invariant: (ceiling_reason IS NULL) = (ceiling_pct IS NOT NULL)

WITH summed AS (
    SELECT
        t.trace_id, t.rank, e.device, e.class AS direction, e.name,
        count(*) AS copy_count,
        sum(e.dur_ns)::BIGINT AS kernel_ns,
        sum(e.wall_ns)::BIGINT AS wall_ns,
        sum(e.bytes)::BIGINT AS bytes,
        count(e.bytes) AS sized_count,
        nullif(sum(e.dur_ns) FILTER (e.bytes IS NOT NULL), 0)::BIGINT AS sized_ns,
        1e9 * sum(e.bytes)::BIGINT / nullif(sum(e.dur_ns) FILTER (e.bytes IS NOT NULL), 0)::BIGINT
            AS bandwidth_bytes_per_s
    FROM device_events AS e
    INNER JOIN trace AS t USING (trace_id)
    WHERE e.kind = 'memcpy' OR copy_of(e.class) = 'set'
    GROUP BY t.trace_id, t.rank, e.device, e.class, e.name
),

-- What tracekit bench calls such a copy, as far as the name tells.
named AS (
    SELECT
        *,
        if(copy_of(direction) IN ('none', 'set'), NULL, copy_of(direction)) AS op, CASE
            WHEN op = 'd2d' THEN 'none'
            WHEN contains(lower(name), 'pinned') THEN 'pinned'
            WHEN contains(lower(name), 'pageable') THEN 'pageable'
        END AS memory, CASE
            WHEN op IS NULL THEN 'it copies nothing'
            WHEN memory IS NULL
                THEN 'its name does not tell whether the memory of the host is pinned'
            WHEN regexp_matches(name, '(?i)P(?:to|2)P')
                THEN 'copies between two devices are not measured'
            WHEN bytes IS NULL THEN 'the trace does not tell its bytes'
            WHEN bandwidth_bytes_per_s IS NULL THEN 'it took no time that the clock could tell'
        END AS why
    FROM summed
)

SELECT
    n.rank, n.device, n.direction, n.name, n.copy_count, n.kernel_ns, n.wall_ns, n.bytes,
    n.sized_count, n.bandwidth_bytes_per_s, n.sized_ns, c.bytes_per_s AS ceiling_bytes_per_s,
    100.0 * n.bandwidth_bytes_per_s / c.bytes_per_s AS ceiling_pct,
    c.source AS ceiling_source, CASE
        WHEN n.why IS NOT NULL THEN n.why
        WHEN ceiling_gap(r.trace_id, r.reason) IS NOT NULL THEN ceiling_gap(r.trace_id, r.reason)
        WHEN c.bytes_per_s IS NULL THEN 'no copy of this kind was measured on this device'
    END AS ceiling_reason
FROM named AS n
LEFT JOIN ceilings('copy') AS c
    ON
        n.trace_id = c.trace_id
        AND is_listed(c.device, n.device)
        AND n.op = c.op
        AND n.memory = if(n.op = 'd2d', 'none', c.memory)
        AND n.why IS NULL
LEFT JOIN ceiling_reasons('copy') AS r ON n.trace_id = r.trace_id AND is_listed(r.device, n.device)
ORDER BY n.rank NULLS LAST, n.trace_id, n.device, n.kernel_ns DESC, n.direction, n.name
