-- How evenly do all-to-alls spread tokens over the ranks of an expert-parallel group?
-- What a rank's experts have to do is what an all-to-all brings it, or what it sends back: of the two directions that in
-- which ranks differ more. A row is a rank in a group; load_pct is its load beside the mean of its group. Only
-- all-to-alls that all ranks of the group recorded count, and whose sizes their calls tell.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   pg_name          VARCHAR  process group, where the calls name it
--   pg_desc          VARCHAR  its description
--   rank             INTEGER  global rank
--   group_size       INTEGER  ranks of the group
--   call_count       BIGINT   all-to-alls
--   load_bytes       BIGINT   load of this rank, bytes
--   mean_load_bytes  DOUBLE   mean of its group, bytes
--   load_pct         DOUBLE   load_bytes of that, 0 to 100 and more
--   imbalance_pct    DOUBLE   the largest load of the group beyond the mean, 0 and more: how much longer the experts of
--                             one rank work than if all had the same
--   is_most_loaded   BOOLEAN  this rank has the largest load of its group
-- Invariant: load_bytes >= 0 AND imbalance_pct >= 0 AND (is_most_loaded OR load_pct <= 100 + imbalance_pct)
-- Empty: no all-to-all is recorded by all ranks of its group, with its sizes

WITH exchanged AS (
    SELECT
        m.match_id,
        regexp_replace(m.match_id, '/(seq|order)/\d+/\d+$', '') AS group_key,
        m.pg_name, m.pg_desc, m.rank, m.expected_count, e.message_bytes AS in_bytes, e.out_bytes
    FROM collective_matches AS m
    INNER JOIN collective_events AS e
        ON m.trace_id = e.trace_id AND m.event_id = e.event_id AND e.piece = 0
    WHERE
        collective_of(m.class) = 'alltoall'
        AND m.reason IS NULL
        AND m.rank_count = m.expected_count
),

ranged AS (
    SELECT
        match_id,
        max(in_bytes) - min(in_bytes) > max(out_bytes) - min(out_bytes) AS is_in,
        count(in_bytes) = count(*) AND count(out_bytes) = count(*) AS is_sized
    FROM exchanged
    GROUP BY match_id
),

loaded AS (
    SELECT
        x.group_key, x.rank,
        any_value(x.pg_name) AS pg_name,
        any_value(x.pg_desc) AS pg_desc,
        any_value(x.expected_count) AS group_size,
        count(*) AS call_count,
        sum(if(r.is_in, x.in_bytes, x.out_bytes))::BIGINT AS load_bytes
    FROM exchanged AS x
    INNER JOIN ranged AS r USING (match_id)
    WHERE r.is_sized
    GROUP BY x.group_key, x.rank
),

compared AS (
    SELECT
        *,
        avg(load_bytes) OVER (PARTITION BY group_key) AS mean_load_bytes,
        max(load_bytes) OVER (PARTITION BY group_key) AS max_load_bytes
    FROM loaded
)

SELECT
    pg_name, pg_desc, rank, group_size, call_count, load_bytes, mean_load_bytes,
    100.0 * load_bytes / nullif(mean_load_bytes, 0) AS load_pct,
    coalesce(100.0 * (max_load_bytes - mean_load_bytes) / nullif(mean_load_bytes, 0), 0)
        AS imbalance_pct,
    load_bytes = max_load_bytes AND max_load_bytes > mean_load_bytes AS is_most_loaded
FROM compared
ORDER BY imbalance_pct DESC, group_key, load_bytes DESC, rank
