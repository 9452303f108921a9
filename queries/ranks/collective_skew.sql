-- Collectives with the longest waits between ranks, and their stragglers.
-- One row per matched collective, and one per group, class, and reason for unmatched collectives. The rank with the
-- shortest duration arrived last; the rest of a longer duration is wait. If traces are missing (rank_count below
-- expected_count), the actual straggler may be one of the missing ranks.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   limit  BIGINT = 50  number of matched collectives, longest waits first; 0 for all
-- Columns:
--   class VARCHAR, collective VARCHAR, pg_name VARCHAR
--   matched_by            VARCHAR  seq or order; NULL if not matched
--   number                BIGINT   sequence number, or position within group and class, from 1; NULL if not matched
--   call_count            BIGINT   number of calls on all ranks
--   rank_count            BIGINT   number of ranks that recorded the collective
--   expected_count        INTEGER  size of the group, or of the job if the group is unknown; NULL if both are unknown
--   message_bytes         BIGINT   largest message size of all ranks, bytes
--   transfer_ns           BIGINT   shortest duration, ns
--   max_dur_ns            BIGINT   longest duration, ns
--   max_wait_ns           BIGINT   longest wait, ns
--   wait_ns               BIGINT   sum of waits of all ranks, ns
--   wait_pct              DOUBLE   wait_ns as a share of the time of all ranks in the collective, 0 to 100
--   straggler_rank        INTEGER  rank that arrived last; NULL if none waited
--   longest_waiting_rank  INTEGER  rank that waited longest; NULL if none
--   reason                VARCHAR  why the calls are not matched; else NULL
-- Keep:     class, number, message_bytes, max_dur_ns, max_wait_ns, wait_pct, straggler_rank, longest_waiting_rank,
--           transfer_ns, wait_ns
-- Invariant: reason IS NOT NULL OR transfer_ns + max_wait_ns = max_dur_ns
-- Invariant: reason IS NOT NULL OR (rank_count >= 2 AND wait_ns >= max_wait_ns)

WITH matched AS (
    SELECT
        class,
        max(collective) AS collective,
        pg_name,
        any_value(matched_by) AS matched_by,
        any_value(number) AS number,
        match_id,
        count(*) AS call_count,
        any_value(rank_count) AS rank_count,
        max(expected_count) AS expected_count,
        max(message_bytes) AS message_bytes,
        any_value(transfer_ns) AS transfer_ns,
        max(dur_ns) AS max_dur_ns,
        max(wait_ns) AS max_wait_ns,
        sum(wait_ns)::BIGINT AS wait_ns,
        100.0 * sum(wait_ns)::BIGINT / nullif(sum(dur_ns), 0)::BIGINT AS wait_pct,
        any_value(rank) FILTER (is_last) AS straggler_rank,
        arg_max(rank, (wait_ns, -rank)) FILTER (wait_ns > 0) AS longest_waiting_rank
    FROM collective_matches
    WHERE reason IS NULL
    GROUP BY match_id, class, pg_name
),

unmatched AS (
    SELECT
        class,
        max(collective) AS collective,
        pg_name,
        count(*) AS call_count,
        count(DISTINCT trace_id || '/' || device) AS rank_count,
        max(expected_count) AS expected_count,
        max(message_bytes) AS message_bytes,
        reason
    FROM collective_matches
    WHERE reason IS NOT NULL
    GROUP BY class, pg_name, reason
)

SELECT
    class, collective, pg_name, matched_by, number, call_count, rank_count, expected_count,
    message_bytes, transfer_ns, max_dur_ns, max_wait_ns, wait_ns, wait_pct, straggler_rank,
    longest_waiting_rank
FROM matched
QUALIFY
    $limit = 0
    OR row_number() OVER (ORDER BY wait_ns DESC, class, pg_name, number, match_id) <= $limit
UNION ALL BY NAME
FROM unmatched
ORDER BY wait_ns DESC NULLS LAST, class, pg_name, matched_by, number, reason
