-- Copies and memsets by direction and memory.
-- Bandwidth is bytes over the sum of durations, for copies whose size is known. The measured peak is the rate measured
-- by `tracekit bench` for the same device, direction, and kind of host memory.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    device_events WHERE kind = 'memcpy' OR copy_of(class) = 'set'
-- Columns:
--   rank                       INTEGER
--   device                     VARCHAR  device number
--   direction                  VARCHAR
--   name                       VARCHAR  name as recorded, with the kinds of memory
--   copy_count BIGINT, kernel_ns BIGINT, wall_ns BIGINT
--   bytes                      BIGINT   sum of the known sizes, bytes; NULL if none is known
--   sized_count                BIGINT   number of copies with known size
--   bandwidth_bytes_per_s      DOUBLE   bandwidth of copies with known size, bytes/s
--   sized_ns                   BIGINT   sum of durations of copies with known size, ns; NULL if 0
--   measured_peak_bytes_per_s  DOUBLE   measured peak rate of this kind of copy, bytes/s
--   measured_peak_pct DOUBLE, measured_peak_source VARCHAR, measured_peak_reason VARCHAR
-- Keep:     rank, device, direction, name, copy_count, kernel_ns, bytes, bandwidth_bytes_per_s, measured_peak_pct
-- View:
--   breakdown  totals=memcpy_totals
-- Invariant: sized_count <= copy_count AND (bytes IS NULL) = (sized_count = 0)
-- Invariant: (measured_peak_reason IS NULL) = (measured_peak_pct IS NOT NULL)

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

-- Corresponding kind of copy in tracekit bench, if the name shows it.
named AS (
    SELECT
        *,
        if(copy_of(direction) IN ('none', 'set'), NULL, copy_of(direction)) AS op, CASE
            WHEN op = 'd2d' THEN 'none'
            WHEN contains(lower(name), 'pinned') THEN 'pinned'
            WHEN contains(lower(name), 'pageable') THEN 'pageable'
        END AS memory, CASE
            WHEN op IS NULL THEN 'a memset copies no bytes'
            WHEN memory IS NULL
                THEN 'the name does not show whether the host memory is pinned'
            WHEN regexp_matches(name, '(?i)P(?:to|2)P')
                THEN 'no benchmark covers copies between two devices'
            WHEN op = 'd2d' AND NOT regexp_matches(name, '(?i)D(?:evice)?_?(?:to|2)_?D')
                THEN 'the name does not show a copy within the device'
            WHEN bytes IS NULL THEN 'the bytes were not recorded'
            WHEN bandwidth_bytes_per_s IS NULL
                THEN 'the copies are shorter than the clock resolution'
        END AS why
    FROM summed
)

SELECT
    n.rank, n.device, n.direction, n.name, n.copy_count, n.kernel_ns, n.wall_ns, n.bytes,
    n.sized_count, n.bandwidth_bytes_per_s, n.sized_ns, c.bytes_per_s AS measured_peak_bytes_per_s,
    100.0 * n.bandwidth_bytes_per_s / c.bytes_per_s AS measured_peak_pct,
    c.source AS measured_peak_source, CASE
        WHEN n.why IS NOT NULL THEN n.why
        WHEN peak_rate_gap(r.trace_id, r.reason) IS NOT NULL
            THEN peak_rate_gap(r.trace_id, r.reason)
        WHEN c.bytes_per_s IS NULL THEN 'no such copy was measured on this device'
    END AS measured_peak_reason
FROM named AS n
LEFT JOIN peak_rates('copy') AS c
    ON
        n.trace_id = c.trace_id
        AND is_listed(c.device, n.device)
        AND n.op = c.op
        AND n.memory = if(n.op = 'd2d', 'none', c.memory)
        AND n.why IS NULL
LEFT JOIN peak_rate_reasons('copy') AS r
    ON n.trace_id = r.trace_id AND is_listed(r.device, n.device)
ORDER BY n.rank NULLS LAST, n.trace_id, n.device, n.kernel_ns DESC, n.direction, n.name
