-- Host-to-device copies that delay the host or the GPU.
-- A copy from pageable memory blocks the host until earlier work in its stream is done. Copies from pinned memory on a
-- separate stream already overlap with compute and are ignored, unless the host waits for them.
--
-- Kind:     advice
-- Scope:    run

WITH computing AS (
    SELECT DISTINCT trace_id, device, stream FROM attributed_events WHERE kind = 'compute'
),

copies AS (
    SELECT
        a.name, a.dur_ns, a.bytes, a.wall_ns,
        coalesce(w.dur_ns, 0) AS wait_ns
    FROM attributed_events AS a
    LEFT JOIN host_waits AS w
        ON a.trace_id = w.trace_id AND a.launch_id = w.event_id AND w.kind IN ('copy', 'sync')
    LEFT JOIN computing AS c
        ON a.trace_id = c.trace_id AND a.device = c.device AND a.stream = c.stream
    WHERE
        copy_of(a.class) = 'h2d'
        AND (NOT contains(a.name, 'Pinned') OR c.stream IS NOT NULL OR w.dur_ns IS NOT NULL)
),

summed AS (
    SELECT
        count(*) AS copy_count,
        coalesce(median(bytes), 0)::BIGINT AS median_bytes,
        sum(wait_ns)::BIGINT AS wait_ns,
        sum(wall_ns)::BIGINT AS wall_ns,
        sum(dur_ns)::BIGINT AS copy_ns,
        count(*) FILTER (contains(name, 'Pageable')) AS pageable_count
    FROM copies
)

SELECT
    format(
        '{:,} host-to-device copies{} ({:,} from pageable memory, median size {:,} bytes): the '
        || 'host waits {}, and the device runs nothing else for {}',
        copy_count, of_ranks(), pageable_count, median_bytes,
        in_ms(wait_ns), in_ms(wall_ns)
    ) AS what,
    'exposed host-to-device copies' AS place,
    'class=memcpy_h2d remove' AS change,
    least(
        wait_ns + wall_ns, (SELECT sum(window_ns) FROM device_windows)::BIGINT - copy_ns
    ) AS cost_ns,
    if(pageable_count > 0, 'Pin the memory (DataLoader(pin_memory=True)). ', '')
    || 'Copy the next batch while the current one computes: batch.to(device, non_blocking=True) on '
    || 'a separate stream. Combine small tensors into one.'
        AS remedy,
    'tracekit query memcpy TRACE' AS evidence
FROM summed
WHERE wait_ns + wall_ns > 0
