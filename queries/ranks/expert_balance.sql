-- Load of each rank in expert-parallel groups, by bytes of all-to-alls.
-- The load of a rank is the bytes that it receives or sends, whichever varies more between ranks. Only all-to-alls with
-- known sizes count, and only if all ranks of the group recorded them.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   pg_name VARCHAR, pg_desc VARCHAR, rank INTEGER, group_size INTEGER
--   call_count       BIGINT   number of all-to-alls
--   load_bytes       BIGINT   load of the rank, bytes
--   mean_load_bytes  DOUBLE   mean load of the group, bytes
--   load_pct         DOUBLE   load_bytes / mean_load_bytes, percent
--   imbalance_pct    DOUBLE   (largest load of the group - mean) / mean, percent
--   is_most_loaded   BOOLEAN  the rank has the largest load of the group
-- Invariant: load_bytes >= 0 AND imbalance_pct >= 0 AND (is_most_loaded OR load_pct <= 100 + imbalance_pct)
-- Empty: no all-to-all was recorded with its sizes by all ranks of its group

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
