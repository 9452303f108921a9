-- Ranks of each process group, with the kind of parallelism of the group.
-- The kind comes from the description, or else from the traffic (send/receive: pipeline, all-to-all: expert), or else
-- from the layout (adjacent ranks: tensor, others: data). A group of all ranks that has no description is the world
-- group, or a pipeline if each rank sends only to adjacent ranks.
--
-- Kind:     table
-- Created:  on demand
-- Input:    process_group UNION ALL SELECT 1 FROM collective_events
-- Columns:
--   pg_name VARCHAR, pg_desc VARCHAR
--   group_key   VARCHAR  key that distinguishes groups with the same name
--   dimension   VARCHAR  world, tensor, data, pipeline, expert, context, or mixed
--   known_by    VARCHAR  description, traffic, or layout
--   group_size  BIGINT
--   first_rank  BIGINT   first rank of the group
--   stride      BIGINT   distance between consecutive ranks; NULL if it varies
--   rank        BIGINT
--   place       BIGINT   position in the group, from 0

WITH known_group AS (
    SELECT DISTINCT pg_name, pg_desc, try_cast(ranks::VARCHAR AS BIGINT[]) AS ranks
    FROM process_group
    WHERE ranks IS NOT NULL
    UNION ALL
    -- If a trace does not list the ranks of its groups, use the ranks recorded in collectives.
    SELECT DISTINCT pg_name, pg_desc, try_cast(pg_ranks AS BIGINT[]) AS ranks
    FROM collective_events
    WHERE
        pg_ranks IS NOT NULL
        AND trace_id NOT IN (SELECT trace_id FROM process_group WHERE ranks IS NOT NULL)
),

listed AS (
    SELECT
        pg_name,
        any_value(pg_desc) AS pg_desc,
        ranks,
        hash(pg_name, ranks)::VARCHAR AS group_key
    FROM known_group
    WHERE len(ranks) > 1
    GROUP BY pg_name, ranks
),

member AS (
    SELECT pg_name, group_key, unnest(ranks) AS rank, generate_subscripts(ranks, 1) - 1 AS place
    FROM listed
),

rank_distance AS (
    SELECT group_key, rank - lag(rank) OVER (PARTITION BY group_key ORDER BY place) AS stride
    FROM member
),

strided AS (
    SELECT group_key, if(min(stride) = max(stride), min(stride), NULL) AS stride
    FROM rank_distance
    GROUP BY group_key
),

used AS (
    SELECT
        t.rank, c.pg_name,
        bool_or(collective_of(c.class) = 'p2p') AS has_p2p,
        bool_or(collective_of(c.class) = 'alltoall') AS has_alltoall,
        coalesce(bool_and(abs(c.peer_rank - t.rank) = 1), FALSE) AS is_chain
    FROM collective_events AS c
    INNER JOIN trace AS t USING (trace_id)
    WHERE collective_of(c.class) IN ('p2p', 'alltoall')
    GROUP BY t.rank, c.pg_name
),

traffic AS (
    SELECT
        m.group_key,
        bool_or(u.has_p2p) AS has_p2p,
        bool_or(u.has_alltoall) AS has_alltoall,
        bool_and(u.is_chain) FILTER (u.has_p2p) AS is_chain
    FROM used AS u
    INNER JOIN member AS m USING (rank, pg_name)
    GROUP BY m.group_key
),

named AS (
    SELECT
        l.*,
        len(l.ranks) AS group_size,
        l.ranks[1] AS first_rank,
        s.stride,
        len(l.ranks) = (SELECT max(world_size) FROM trace) AND NOT coalesce(t.is_chain, FALSE)
            AS is_world,
        concat_ws(
            '+',
            if(regexp_matches(l.pg_desc, '(?i)pipe|(^|[^a-z])pp([^a-z]|$)'), 'pipeline', NULL),
            if(
                regexp_matches(l.pg_desc, '(?i)tensor|(^|[^a-z])(tp|mp)([^a-z]|$)'),
                'tensor', NULL
            ),
            if(
                regexp_matches(l.pg_desc, '(?i)expert|moe|(^|[^a-z])ep([^a-z]|$)'),
                'expert', NULL
            ),
            if(
                regexp_matches(l.pg_desc, '(?i)context|sequence|(^|[^a-z])(cp|sp)([^a-z]|$)'),
                'context', NULL
            ),
            if(
                regexp_matches(
                    l.pg_desc, '(?i)data|shard|replic|zero|(^|[^a-z])([hdf]*s?dp)([^a-z]|$)'
                ),
                'data', NULL
            )
        ) AS words,
        coalesce(t.has_p2p, FALSE) AS has_p2p,
        coalesce(t.has_alltoall, FALSE) AS has_alltoall
    FROM listed AS l
    INNER JOIN strided AS s USING (group_key)
    LEFT JOIN traffic AS t USING (group_key)
),

decided AS (
    SELECT
        *,
        CASE
            WHEN contains(words, '+') THEN 'mixed'
            WHEN words <> '' THEN words
            WHEN is_world THEN 'world'
            WHEN has_p2p THEN 'pipeline'
            WHEN has_alltoall THEN 'expert'
            WHEN stride = 1 THEN 'tensor'
            ELSE 'data'
        END AS dimension, CASE
            WHEN words <> '' THEN 'description'
            WHEN is_world THEN 'layout'
            WHEN has_p2p OR has_alltoall THEN 'traffic'
            ELSE 'layout'
        END AS known_by
    FROM named
)

SELECT
    d.pg_name, d.pg_desc, d.group_key, d.dimension, d.known_by, d.group_size, d.first_rank,
    d.stride, m.rank, m.place
FROM decided AS d
INNER JOIN member AS m USING (group_key)
