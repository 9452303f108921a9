-- Transfer time and bandwidth per process group, message class, and size.
-- Each group is compared with groups of the same purpose, size, and number of machines. Collectives that lack a rank
-- are excluded, because that rank may have arrived last.
--
-- Kind:     analysis
-- Access:   private
-- Scope:    run
-- Input:    collective_matches
-- Params:
--   mad_count  DOUBLE = 6   outlier threshold in robust standard deviations (1.4826 × median absolute deviation)
--   least_pct  DOUBLE = 10  minimum excess of an outlier over the median, percent
-- Columns:
--   dimension        VARCHAR  world, tensor, data, pipeline, expert, context, or mixed; NULL if unknown
--   pg_name VARCHAR, pg_desc VARCHAR
--   sender_rank      BIGINT   sender of send/receive pairs
--   receiver_rank    BIGINT   receiver of send/receive pairs
--   class            VARCHAR
--   message_bytes    BIGINT   message size, bytes; mean for all-to-alls; NULL if unknown
--   group_size INTEGER, ranks INTEGER[], nodes VARCHAR[], match_count BIGINT
--   transfer_ns      BIGINT   sum of transfer times, ns
--   wait_ns          BIGINT   sum of waits, ns
--   bus_bytes_per_s  DOUBLE   bus bandwidth; NULL if unknown
--   peer_count       BIGINT   number of comparable groups, including this one
--   peer_bus_bytes_per_s DOUBLE, peer_transfer_ns DOUBLE
--   excess_ns        DOUBLE   excess of transfer_ns over comparable groups, ns
--   is_outlier       BOOLEAN  the excess exceeds the threshold; NULL for fewer than three groups

WITH matched AS (
    SELECT m.*, n.node
    FROM collective_matches AS m
    LEFT JOIN rank_nodes() AS n USING (trace_id)
    WHERE m.reason IS NULL AND m.rank_count >= m.expected_count
),

collective_match AS (
    SELECT
        match_id,
        regexp_replace(match_id, '/(seq|order)/\d+/\d+$', '') AS group_key,
        any_value(pg_name) AS pg_name,
        any_value(pg_desc) AS pg_desc,
        any_value(sender_rank) AS sender_rank,
        any_value(receiver_rank) AS receiver_rank,
        any_value(class) AS class,
        any_value(expected_count) AS group_size,
        list_sort(list(DISTINCT rank)) AS ranks,
        avg(message_bytes) AS message_bytes,
        any_value(bus_factor) AS bus_factor,
        any_value(transfer_ns) AS transfer_ns,
        sum(wait_ns)::BIGINT AS wait_ns,
        list_sort(list(DISTINCT node) FILTER (node IS NOT NULL)) AS nodes
    FROM matched
    GROUP BY match_id
),

transfer AS (
    SELECT
        group_key,
        any_value(pg_name) AS pg_name,
        any_value(pg_desc) AS pg_desc,
        any_value(sender_rank) AS sender_rank,
        any_value(receiver_rank) AS receiver_rank,
        class,
        if(collective_of(class) = 'alltoall', NULL, message_bytes) AS size_key,
        avg(message_bytes) AS mean_bytes,
        any_value(group_size) AS group_size,
        any_value(ranks) AS ranks,
        any_value(nodes) AS nodes,
        count(*) AS match_count,
        sum(transfer_ns)::BIGINT AS transfer_ns,
        sum(wait_ns)::BIGINT AS wait_ns,
        1e9 * sum(message_bytes * bus_factor) / nullif(
            sum(transfer_ns) FILTER (message_bytes * bus_factor IS NOT NULL), 0
        ) AS bus_bytes_per_s
    FROM collective_match
    GROUP BY group_key, class, size_key
),

placed AS (
    SELECT t.*, dimension_of(t.pg_name, t.ranks[1]) AS dimension
    FROM transfer AS t
),

peer AS (
    SELECT
        class, dimension, pg_desc, size_key, group_size,
        len(nodes) AS node_count,
        count(*) AS peer_count,
        median(bus_bytes_per_s) AS bus_bytes_per_s,
        median(transfer_ns / match_count) AS mean_ns,
        mad(transfer_ns / match_count) AS mad_ns
    FROM placed
    GROUP BY class, dimension, pg_desc, size_key, group_size, node_count
),

compared AS (
    SELECT
        m.*,
        p.peer_count, p.bus_bytes_per_s AS peer_bus_bytes_per_s,
        p.mean_ns * m.match_count AS peer_transfer_ns,
        greatest($mad_count * 1.4826 * p.mad_ns, $least_pct * p.mean_ns / 100, 1) * m.match_count
            AS margin_ns
    FROM placed AS m
    INNER JOIN peer AS p
        ON
            m.class = p.class
            AND m.dimension IS NOT DISTINCT FROM p.dimension
            AND m.pg_desc IS NOT DISTINCT FROM p.pg_desc
            AND m.size_key IS NOT DISTINCT FROM p.size_key
            AND m.group_size = p.group_size
            AND len(m.nodes) IS NOT DISTINCT FROM p.node_count
)

SELECT
    dimension, pg_name, pg_desc, sender_rank, receiver_rank, class,
    mean_bytes::BIGINT AS message_bytes,
    group_size, ranks,
    coalesce(nodes, []) AS nodes,
    match_count, transfer_ns, wait_ns, bus_bytes_per_s, peer_count, peer_bus_bytes_per_s,
    peer_transfer_ns,
    transfer_ns - peer_transfer_ns AS excess_ns,
    if(peer_count >= 3, transfer_ns - peer_transfer_ns >= margin_ns, NULL) AS is_outlier
FROM compared
ORDER BY dimension, class, mean_bytes, ranks, sender_rank, receiver_rank, group_key
