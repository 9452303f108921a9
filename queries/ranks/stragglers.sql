-- Ranks, nodes, and links that are slower than their peers.
-- A rank is an outlier if its own time exceeds the median of its pipeline stage by six robust standard deviations
-- (1.4826 × median absolute deviation) and by 1 %. For the transfer time of a link (a process group or a pair of ranks), the limits are six robust standard
-- deviations and 10 %. If most ranks of a node are outliers, the node is reported instead. If at least half of the
-- ranks of a stage are similarly slow, one row of kind `ranks` lists them. Requires four ranks of a stage, or
-- three comparable process groups.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    rank_waits
-- Columns:
--   kind                  VARCHAR    rank, node, link, or ranks (several that are similarly slow)
--   name                  VARCHAR    name of the rank, node, or link
--   ranks                 INTEGER[]  slow ranks; for links, the pair of ranks, or the first rank of the group
--   node                  VARCHAR    machine; NULL if unknown or if there are several
--   delay_ns              DOUBLE     excess over the median of the peers, ns; for kinds node and ranks, median excess of the slow ranks
--   like_ns               DOUBLE     median of the peers, ns
--   delay_pct             DOUBLE     delay_ns / like_ns, percent
--   limit_ns              DOUBLE     threshold of delay_ns for an outlier, ns; NULL for links
--   like_count            BIGINT     number of peers, including the row itself; for kind ranks, all ranks of the stage
--   is_once               BOOLEAN    most of the delay occurs before one collective; NULL for links and ranks
--   collective            VARCHAR    collective after the longest delay; for links, collective of the link
--   pg_name               VARCHAR    process group of the collective
--   number                BIGINT     sequence number or position of the collective; NULL for links
--   caused_wait_ns        BIGINT     time that other ranks waited in collectives in which this rank arrived last, ns
--   waiting_rank_count    BIGINT     maximum number of ranks that waited in one of these collectives
--   longest_waiting_rank  INTEGER    rank that waited longest
--   max_caused_wait_ns    BIGINT     wait of that rank, ns
--   bus_bytes_per_s       DOUBLE     bus bandwidth of a link, bytes/s
--   like_bus_bytes_per_s  DOUBLE     median bus bandwidth of the peers of a link, bytes/s
-- Keep:     kind, name, node, delay_ns, delay_pct, caused_wait_ns, longest_waiting_rank, max_caused_wait_ns
-- Invariant: delay_ns > 0
-- Empty: no rank, node, or link is an outlier (this needs at least four ranks or three comparable groups)

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
    FROM rank_waits
    WHERE node IS NOT NULL
    GROUP BY node
),

slow_node AS (
    SELECT *, count(*) OVER () AS node_count
    FROM node_part
    QUALIFY outlier_count > 1 AND 2 * outlier_count > device_count AND node_count > 1
),

-- Ranks of a stage from fastest to slowest, excluding outliers. The widest gap separates the slow
-- ranks from the fast ranks.
in_line AS (
    SELECT
        *,
        own_ns - min(own_ns) OVER (PARTITION BY stage ORDER BY own_ns ROWS 1 PRECEDING) AS gap_ns
    FROM rank_waits
    WHERE NOT is_outlier
),

parted AS (
    SELECT stage, max(gap_ns) AS gap_ns, arg_max(own_ns, gap_ns) AS slow_from_ns
    FROM in_line
    GROUP BY stage
),

halves AS (
    SELECT
        r.stage,
        any_value(r.peer_count) AS like_count,
        any_value(p.gap_ns) AS gap_ns,
        count(*) FILTER (r.own_ns < p.slow_from_ns) AS fast_count,
        median(r.own_ns) FILTER (r.own_ns < p.slow_from_ns) AS fast_ns,
        mad(r.own_ns) FILTER (r.own_ns < p.slow_from_ns) AS fast_mad_ns,
        median(r.own_ns) FILTER (r.own_ns >= p.slow_from_ns) AS slow_ns,
        mad(r.own_ns) FILTER (r.own_ns >= p.slow_from_ns) AS slow_mad_ns,
        list(r.rank ORDER BY r.rank) FILTER (r.own_ns >= p.slow_from_ns) AS ranks,
        sum(r.caused_wait_ns) FILTER (r.own_ns >= p.slow_from_ns)::BIGINT AS caused_wait_ns,
        arg_max(
            {
                'rank_count': r.waiting_rank_count, 'rank': r.longest_waiting_rank,
                'max_wait_ns': r.max_caused_wait_ns
            },
            (r.max_caused_wait_ns, -r.rank)
        ) FILTER (r.own_ns >= p.slow_from_ns) AS worst
    FROM rank_waits AS r
    INNER JOIN parted AS p ON r.stage IS NOT DISTINCT FROM p.stage
    WHERE r.own_ns IS NOT NULL
    GROUP BY r.stage
),

straggler AS (
    SELECT
        'ranks' AS kind,
        concat(
            format('{} of {} ranks', like_count - fast_count, like_count),
            format(' at stage {}', stage)
        ) AS name,
        ranks,
        slow_ns - fast_ns AS delay_ns,
        fast_ns AS like_ns,
        greatest(6 * 1.4826 * greatest(fast_mad_ns, slow_mad_ns), 0.01 * fast_ns, 1) AS limit_ns,
        like_count, caused_wait_ns, worst.rank_count AS waiting_rank_count,
        worst.rank AS longest_waiting_rank, worst.max_wait_ns AS max_caused_wait_ns
    FROM halves
    WHERE
        gap_ns >= limit_ns
        AND 2 * fast_count <= like_count
        AND 4 * fast_count >= like_count
        AND fast_count > 1
    UNION ALL BY NAME
    SELECT
        'node' AS kind,
        node AS name, ranks, node, delay_ns, like_ns, limit_ns, node_count AS like_count, is_once,
        worst.late_class AS class, worst.late_pg_name AS pg_name, worst.late_number AS number,
        caused_wait_ns, worst.rank_count AS waiting_rank_count, worst.rank AS longest_waiting_rank,
        worst.max_wait_ns AS max_caused_wait_ns
    FROM slow_node
    UNION ALL BY NAME
    SELECT
        'rank' AS kind,
        if(r.rank IS NULL, format('unknown rank, trace {}', r.trace_id), format('rank {}', r.rank))
            AS name,
        if(r.rank IS NULL, [], [r.rank]) AS ranks,
        r.node, r.excess_ns AS delay_ns, r.peer_own_ns AS like_ns,
        r.limit_ns - r.peer_own_ns AS limit_ns,
        r.peer_count AS like_count,
        r.late_ns > r.excess_ns / 2 AS is_once,
        r.late_class AS class, r.late_pg_name AS pg_name, r.late_number AS number,
        r.caused_wait_ns, r.waiting_rank_count, r.longest_waiting_rank, r.max_caused_wait_ns
    FROM rank_waits AS r
    LEFT JOIN slow_node AS s ON r.node = s.node
    -- A rank of a slow node has its own row only if it is much slower than the node.
    WHERE r.is_outlier AND (s.node IS NULL OR r.excess_ns > 2 * s.delay_ns)
    UNION ALL BY NAME
    SELECT
        'link' AS kind,
        if(
            sender_rank IS NULL,
            format('{} group {}', coalesce(dimension, 'process'), coalesce(pg_name, '?')),
            format('rank {} to {}', sender_rank, receiver_rank)
        ) AS name,
        if(sender_rank IS NULL, ranks[:1], [sender_rank::INTEGER, receiver_rank::INTEGER]) AS ranks,
        if(len(nodes) = 1, nodes[1], NULL) AS node,
        excess_ns AS delay_ns, peer_transfer_ns AS like_ns, peer_count AS like_count, class,
        pg_name,
        0 AS caused_wait_ns,
        0 AS waiting_rank_count,
        0 AS max_caused_wait_ns,
        bus_bytes_per_s, peer_bus_bytes_per_s AS like_bus_bytes_per_s
    FROM group_transfers
    WHERE is_outlier
)

SELECT
    kind, name, ranks, node, delay_ns, like_ns,
    100.0 * delay_ns / nullif(like_ns, 0) AS delay_pct,
    limit_ns, like_count, is_once, class AS collective, pg_name, number, caused_wait_ns,
    waiting_rank_count, longest_waiting_rank, max_caused_wait_ns, bus_bytes_per_s,
    like_bus_bytes_per_s
FROM straggler
ORDER BY delay_ns DESC, caused_wait_ns DESC, kind, name
