-- Kinds of parallelism, with process groups and communication cost.
-- One row per kind and size of process group. The kind comes from the description of the group, from its traffic, or
-- from the layout of its ranks, in this order. Times cover collectives that are matched on all ranks.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    rank_waits
-- Columns:
--   dimension               VARCHAR   world, tensor, data, pipeline, expert, context, or mixed
--   known_by                VARCHAR   description, traffic, or layout
--   description             VARCHAR   description of the groups
--   group_count             BIGINT    number of groups
--   group_size              BIGINT    number of ranks of each group
--   stride                  BIGINT    distance between consecutive ranks; NULL if it varies
--   node_count              BIGINT    maximum number of machines per group; NULL if unknown
--   example_name            VARCHAR   group that contains the lowest rank
--   example_ranks           BIGINT[]  ranks of that group
--   match_count             BIGINT    number of matched collectives in all groups
--   transfer_ns             BIGINT    sum of transfer times, ns; NULL if no collective is matched on all ranks
--   wait_ns                 BIGINT    sum of waits, ns; NULL if no collective is matched on all ranks
--   median_bus_bytes_per_s  DOUBLE    median bus bandwidth over groups and message sizes, bytes/s; NULL if unknown
--   min_bus_bytes_per_s     DOUBLE    bus bandwidth of the slowest group with its largest message, bytes/s
--   slowest_name            VARCHAR   slowest group, or pair of ranks
--   reason                  VARCHAR   why some or all groups have no matched collectives; else NULL
-- Invariant: group_count > 0 AND group_size > 1
-- Invariant: transfer_ns IS NOT NULL OR reason IS NOT NULL
-- Empty: the traces do not list the ranks of any process group

WITH node AS (
    SELECT rank, any_value(node) AS node
    FROM rank_nodes()
    GROUP BY rank
),

-- Ranks with traces. Groups used by their collectives follow.
traced AS (
    SELECT DISTINCT rank
    FROM rank_waits
),

used AS (
    SELECT DISTINCT c.pg_name, t.rank
    FROM collective_events AS c
    INNER JOIN trace AS t USING (trace_id)
),

one AS (
    SELECT
        m.dimension, m.known_by, m.pg_desc, m.group_size, m.group_key,
        any_value(m.stride) AS stride,
        any_value(m.pg_name) AS pg_name,
        any_value(m.first_rank) AS first_rank,
        list(m.rank ORDER BY m.place) AS ranks,
        list(m.rank) FILTER (t.rank IS NULL) AS missing_ranks,
        bool_or(u.rank IS NOT NULL) AS is_used,
        nullif(count(DISTINCT n.node), 0) AS node_count
    FROM parallel_members AS m
    LEFT JOIN node AS n USING (rank)
    LEFT JOIN traced AS t USING (rank)
    LEFT JOIN used AS u USING (pg_name, rank)
    GROUP BY m.dimension, m.known_by, m.pg_desc, m.group_size, m.group_key
),

summed AS (
    SELECT
        dimension, known_by, pg_desc, group_size,
        count(*) AS group_count,
        if(min(stride) = max(stride), min(stride), NULL) AS stride,
        max(node_count) AS node_count,
        bool_or(is_used) AS is_used,
        list_sort(list_distinct(flatten(list(missing_ranks)))) AS missing_ranks,
        arg_min(pg_name, first_rank) AS example_name,
        arg_min(ranks, first_rank) AS example_ranks
    FROM one
    GROUP BY dimension, known_by, pg_desc, group_size
),

member_of AS (
    SELECT DISTINCT o.pg_name, o.dimension, o.known_by, o.pg_desc, o.group_size, o.first_rank
    FROM one AS o
),

moved AS (
    SELECT
        o.dimension, o.known_by, o.pg_desc, o.group_size,
        sum(g.match_count)::BIGINT AS match_count,
        sum(g.transfer_ns)::BIGINT AS transfer_ns,
        sum(g.wait_ns)::BIGINT AS wait_ns,
        median(g.bus_bytes_per_s) AS median_bus_bytes_per_s,
        min(g.bus_bytes_per_s) FILTER (g.is_largest) AS min_bus_bytes_per_s,
        arg_min(
            if(
                g.sender_rank IS NULL, g.pg_name,
                format('rank {} to {}', g.sender_rank, g.receiver_rank)
            ),
            -- If groups are equally slow, the one with the lowest ranks is named.
            (g.bus_bytes_per_s, g.ranks, g.sender_rank)
        ) FILTER (g.is_largest AND g.bus_bytes_per_s IS NOT NULL) AS slowest_name
    FROM (
        SELECT
            *,
            message_bytes = max(message_bytes) OVER (
                PARTITION BY pg_name, ranks, sender_rank, receiver_rank, class
            ) AS is_largest
        FROM group_transfers
    ) AS g
    INNER JOIN member_of AS o
        ON
            g.pg_name = o.pg_name
            AND g.dimension = o.dimension
            AND (
                g.ranks[1] = o.first_rank
                OR g.sender_rank IS NOT NULL
                OR g.group_size < o.group_size
            )
    GROUP BY o.dimension, o.known_by, o.pg_desc, o.group_size
)

SELECT
    s.dimension, s.known_by, s.pg_desc AS description, s.group_count, s.group_size, s.stride,
    s.node_count, s.example_name, s.example_ranks,
    coalesce(m.match_count, 0) AS match_count,
    m.transfer_ns, m.wait_ns, m.median_bus_bytes_per_s, m.min_bus_bytes_per_s, m.slowest_name, CASE
        WHEN len(s.missing_ranks) > 0
            THEN format(
                'no trace of rank{} {}{}',
                if(len(s.missing_ranks) = 1, '', 's'),
                array_to_string(s.missing_ranks[:5], ', '),
                if(len(s.missing_ranks) > 5, format(' and {} more', len(s.missing_ranks) - 5), '')
            )
        WHEN m.transfer_ns IS NULL AND NOT s.is_used THEN 'no collective uses these groups'
        WHEN m.transfer_ns IS NULL
            THEN 'no collective is matched over all ranks: see collective_skew for the reason'
    END AS reason
FROM summed AS s
LEFT JOIN moved AS m
    ON
        s.dimension = m.dimension
        AND s.known_by = m.known_by
        AND s.pg_desc IS NOT DISTINCT FROM m.pg_desc
        AND s.group_size = m.group_size
ORDER BY s.group_size DESC, s.dimension, s.pg_desc, s.known_by
