-- Collectives far below the bandwidth measured on this device.
-- Covers transfers of at least 1 MiB. The limit is half of the bus bandwidth that `tracekit bench` measured for the
-- same collective and group size.
--
-- Kind:     advice
-- Scope:    run

WITH class_bandwidth AS (
    SELECT
        trace_id, device, class, group_size, collective_backend(name) AS backend,
        count(*) AS transfer_count,
        sum(dur_ns)::BIGINT AS comm_ns,
        sum(message_bytes * bus_factor) * 1e9 / sum(call_ns) AS bus_bytes_per_s
    FROM collective_events
    WHERE is_transfer AND message_bytes >= 1 << 20 AND bus_factor > 0 AND dur_ns > 0
    GROUP BY ALL
),

measured AS (
    SELECT
        trace_id, device, backend, group_size,
        'comm_' || replace(op, '_', '') AS class,
        max(bus_bytes_per_s) AS bus_bytes_per_s
    FROM peak_rates('collective')
    GROUP BY ALL
),

-- The change selects all transfers of a class, also faster and smaller ones.
class_time AS (
    SELECT class, sum(dur_ns)::BIGINT AS comm_ns
    FROM collective_events
    GROUP BY class
),

slow AS (
    SELECT
        r.class, sum(r.transfer_count) AS transfer_count, sum(r.comm_ns)::BIGINT AS comm_ns,
        min(r.bus_bytes_per_s) AS bus_bytes_per_s,
        arg_min(m.bus_bytes_per_s, r.bus_bytes_per_s) AS peak_rate,
        sum(r.comm_ns * (1 - r.bus_bytes_per_s / m.bus_bytes_per_s)) AS excess_ns
    FROM class_bandwidth AS r
    INNER JOIN measured AS m
        ON
            r.trace_id = m.trace_id
            AND is_listed(m.device, r.device)
            AND r.backend = m.backend
            AND r.group_size = m.group_size
            AND r.class = m.class
    WHERE r.bus_bytes_per_s < 0.5 * m.bus_bytes_per_s
    GROUP BY r.class
)

SELECT
    format(
        '{} {} transfers reach as little as {:.1f} GB/s (measured peak: {:.1f} GB/s)',
        s.transfer_count, s.class, s.bus_bytes_per_s / 1e9, s.peak_rate / 1e9
    ) AS what,
    'slow ' || s.class AS place,
    format('class={} x{:.3f}', s.class, 1 - s.excess_ns / c.comm_ns) AS change,
    s.comm_ns AS cost_ns,
    'First check for late ranks with tracekit query waits: their delay counts as transfer time. '
    || 'Then check the link: transport (NCCL_DEBUG=INFO), NCCL_IB_HCA, NCCL_P2P_DISABLE=0, '
    || 'topology, and other jobs.' AS remedy,
    'tracekit query communication TRACE' AS evidence
FROM slow AS s
INNER JOIN class_time AS c USING (class)
ORDER BY s.comm_ns DESC, s.class
LIMIT 2
