-- Which ranks, nodes and links are slower than their like, and by how much did that hold the run up?
-- A rank is one whose own time, that between collectives, is an outlier among the ranks at its stage of the pipeline: a
-- late arrival at one collective is, too. A node is named in place of its ranks where more than half of them are, and a
-- link is a process group whose transfers are an outlier among groups for the same purpose. An outlier lies beyond the
-- median by six robust standard deviations (1.4826 median absolute deviations), and by 1 % of the median (of transfers
-- 10 %). The clocks of ranks are not compared. No row is no outlier, which needs four ranks or three groups to be told.
--
-- Kind:     analysis
-- Scope:    run
-- Reduces:  rank_waits, group_transfers
-- Columns:
--   kind                  VARCHAR    rank, node or link
--   name                  VARCHAR    which one
--   ranks                 INTEGER[]  ranks that it is about: of a link, the ends of a pair, or the first of the group
--   node                  VARCHAR    machine; NULL where not known, or more than one
--   delay_ns              DOUBLE     what it takes longer than its like, ns: of a node, the median of its outliers
--   like_ns               DOUBLE     what its like take: the median, ns
--   delay_pct             DOUBLE     delay_ns of like_ns, 0 to 100 and more
--   limit_ns              DOUBLE     from this delay on it counts as an outlier, ns; NULL of a link
--   like_count            BIGINT     how many it is compared with, itself among them
--   is_once               BOOLEAN    most of the delay comes before one collective; NULL of a link
--   collective            VARCHAR    that before which the delay is longest, or that of the link
--   pg_name               VARCHAR    its process group
--   number                BIGINT     its Seq, or its place in its order; NULL of a link
--   caused_wait_ns        BIGINT     what all others waited in collectives that it came last to, ns
--   waiting_rank_count    BIGINT     how many ranks waited in one of them, at most
--   longest_waiting_rank  INTEGER    who waited longest
--   max_caused_wait_ns    BIGINT     how long that was, ns
--   bus_bytes_per_s       DOUBLE     of a link: bus bandwidth, bytes/s
--   like_bus_bytes_per_s  DOUBLE     and that of its like, the median, bytes/s
-- Keep:     kind, name, node, delay_ns, delay_pct, caused_wait_ns, longest_waiting_rank, max_caused_wait_ns
-- Invariant: delay_ns > 0

WITH node_part AS (
    SELECT
        node,
        count(*) AS device_count,
        count(*) FILTER (is_outlier) AS outlier_count,
        median(excess_ns) FILTER (is_outlier) AS delay_ns,
        median(peer_own_ns) FILTER (is_outlier) AS like_ns,
        min(limit_ns - peer_own_ns) FILTER (is_outlier) AS limit_ns,
        list(DISTINCT rank ORDER BY rank) AS ranks,
        bool_and(late_ns > excess_ns / 2) FILTER (is_outlier) AS is_once,
        arg_max(
            {
                'late_class': late_class, 'late_pg_name': late_pg_name, 'late_number': late_number,
                'rank_count': waiting_rank_count, 'rank': longest_waiting_rank,
                'max_wait_ns': max_caused_wait_ns
            },
            max_caused_wait_ns
        ) FILTER (is_outlier) AS worst,
        sum(caused_wait_ns) FILTER (is_outlier)::BIGINT AS caused_wait_ns
    FROM rank_waits_rows
    WHERE node IS NOT NULL
    GROUP BY node
),

counted AS (
    SELECT
        *,
        count(*) OVER () AS node_count
    FROM node_part
),

slow_node AS (
    SELECT *
    FROM counted
    WHERE outlier_count > 1 AND 2 * outlier_count > device_count AND node_count > 1
),

found AS (
    SELECT
        'node' AS kind,
        node AS name,
        ranks,
        node,
        delay_ns,
        like_ns,
        limit_ns,
        node_count AS like_count,
        is_once,
        worst.late_class AS class,
        worst.late_pg_name AS pg_name,
        worst.late_number AS number,
        caused_wait_ns,
        worst.rank_count AS waiting_rank_count,
        worst.rank AS longest_waiting_rank,
        worst.max_wait_ns AS max_caused_wait_ns,
        NULL::DOUBLE AS bus_bytes_per_s,
        NULL::DOUBLE AS like_bus_bytes_per_s
    FROM slow_node
    UNION ALL
    SELECT
        'rank',
        if(r.rank IS NULL, format('unknown rank, trace {}', r.trace_id), format('rank {}', r.rank)),
        if(r.rank IS NULL, [], [r.rank]),
        r.node,
        r.excess_ns,
        r.peer_own_ns,
        r.limit_ns - r.peer_own_ns,
        r.peer_count,
        r.late_ns > r.excess_ns / 2,
        r.late_class,
        r.late_pg_name,
        r.late_number,
        r.caused_wait_ns,
        r.waiting_rank_count,
        r.longest_waiting_rank,
        r.max_caused_wait_ns,
        NULL,
        NULL
    FROM rank_waits_rows AS r
    LEFT JOIN slow_node AS s ON r.node = s.node
    -- A rank of a slow node is one of its own if it is slower by far than the rest of the node.
    WHERE r.is_outlier AND (s.node IS NULL OR r.excess_ns > 2 * s.delay_ns)
    UNION ALL
    SELECT
        'link',
        if(
            sender_rank IS NULL,
            format('{} group {}', coalesce(dimension, 'process'), coalesce(pg_name, '?')),
            format('rank {} to {}', sender_rank, receiver_rank)
        ),
        if(sender_rank IS NULL, [first_rank], [sender_rank::INTEGER, receiver_rank::INTEGER]),
        if(len(nodes) = 1, nodes[1], NULL),
        excess_ns,
        peer_transfer_ns,
        NULL,
        peer_count,
        NULL,
        class,
        pg_name,
        NULL,
        0,
        0,
        NULL,
        0,
        bus_bytes_per_s,
        peer_bus_bytes_per_s
    FROM group_transfers_rows
    WHERE is_outlier
)

SELECT
    kind,
    name,
    ranks,
    node,
    delay_ns,
    like_ns,
    100.0 * delay_ns / nullif(like_ns, 0) AS delay_pct,
    limit_ns,
    like_count,
    is_once,
    class AS collective,
    pg_name,
    number,
    caused_wait_ns,
    waiting_rank_count,
    longest_waiting_rank,
    max_caused_wait_ns,
    bus_bytes_per_s,
    like_bus_bytes_per_s
FROM found
ORDER BY delay_ns DESC, caused_wait_ns DESC, kind, name
