-- Time, overlap, and bandwidth of collectives, summed over all devices.
-- Shares are relative to the sum of the device windows. Bandwidths cover collectives with known message size.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   communication per total
-- Input:    communication
-- Columns:
--   class VARCHAR, pg_name VARCHAR
--   call_count       BIGINT     number of collectives
--   kernel_ns BIGINT, comm_ns BIGINT
--   wall_ns          BIGINT     exposed part, ns
--   overlapped_pct   DOUBLE     share of comm_ns with concurrent compute, 0 to 100
--   wall_pct         DOUBLE     wall_ns as a share of all windows, 0 to 100
--   sized_count      BIGINT     number of collectives with known message size
--   sized_ns         BIGINT     sum of durations of collectives with known message size, ns; NULL if 0
--   message_bytes    BIGINT     sum of the known message sizes, bytes; NULL if none is known
--   algorithm_bytes_per_s  DOUBLE
--   bus_bytes_per_s  DOUBLE     bus bandwidth, bytes/s; NULL if a group size is unknown
--   reasons          VARCHAR[]  why a bandwidth is missing or covers fewer than call_count
-- Keep:     class, pg_name, call_count, kernel_ns, wall_pct, overlapped_pct, message_bytes, algorithm_bytes_per_s,
--           bus_bytes_per_s
-- Invariant: 0 <= wall_ns AND wall_ns <= comm_ns AND comm_ns <= kernel_ns
-- Invariant: sized_count <= call_count AND (message_bytes IS NULL) = (sized_count = 0)

WITH placed AS (
    SELECT
        *,
        rowid AS place,
        row_number() OVER (PARTITION BY class, pg_name, reason ORDER BY rowid) = 1 AS is_first
    FROM communication
),

summed AS (
    SELECT
        class, pg_name,
        sum(call_count)::BIGINT AS call_count,
        sum(kernel_ns)::BIGINT AS kernel_ns,
        sum(comm_ns)::BIGINT AS comm_ns,
        sum(wall_ns)::BIGINT AS wall_ns,
        sum(sized_count)::BIGINT AS sized_count,
        sum(sized_ns)::BIGINT AS sized_ns,
        sum(message_bytes)::BIGINT AS message_bytes,
        bool_and(bus_bytes_per_s IS NOT NULL) FILTER (sized_ns IS NOT NULL) AS has_bus,
        sum(bus_bytes_per_s * sized_ns) AS bus_bytes_ns,
        list(reason ORDER BY place) FILTER (is_first AND reason IS NOT NULL) AS reasons
    FROM placed
    GROUP BY class, pg_name
)

SELECT
    s.class, s.pg_name, s.call_count, s.kernel_ns, s.comm_ns, s.wall_ns,
    100.0 * (s.comm_ns - s.wall_ns) / nullif(s.comm_ns, 0) AS overlapped_pct,
    100.0 * s.wall_ns
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS wall_pct,
    s.sized_count, s.sized_ns, s.message_bytes,
    1e9 * s.message_bytes / s.sized_ns AS algorithm_bytes_per_s,
    CASE WHEN s.has_bus THEN s.bus_bytes_ns / s.sized_ns END AS bus_bytes_per_s,
    coalesce(s.reasons, []) AS reasons
FROM summed AS s
ORDER BY s.kernel_ns DESC, s.class, s.pg_name NULLS FIRST
