-- In which collectives did ranks wait for each other, and for whom?
-- One row per collective that several ranks recorded, and one per group and class for those that could not be
-- matched, with the reason. A collective is over on all ranks at about the same time, so the rank with the shortest
-- duration arrived last: its duration is the transfer, and what the others have beyond it they waited. No start times
-- of different ranks are compared. A rank whose trace is missing may have been the last: rank_count says how many of
-- expected_count are there.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   limit  BIGINT = 50  matched collectives, those with the longest wait first; 0 for all
-- Columns:
--   class               VARCHAR  class of the collective, as in table kernel_class
--   collective          VARCHAR  its name, as its call gives it
--   pg_name             VARCHAR  process group, where the call names it
--   matched_by          VARCHAR  seq or order; NULL if not matched
--   number              BIGINT   Seq, or place in the order of its group and class, from 1; NULL if not matched
--   call_count          BIGINT   calls of all ranks
--   rank_count          BIGINT   ranks that recorded it
--   expected_count      INTEGER  ranks of the group; of the job where the group is not known; NULL if neither is
--   message_bytes       BIGINT   size of the message, the largest of all ranks, bytes
--   transfer_ns         BIGINT   shortest duration, ns
--   max_dur_ns          BIGINT   longest duration, ns
--   max_wait_ns         BIGINT   longest wait, ns
--   wait_ns             BIGINT   waits of all ranks together, ns
--   wait_pct            DOUBLE   wait_ns of all ranks' time in it, 0 to 100
--   straggler_rank        INTEGER  the rank that arrived last
--   longest_waiting_rank  INTEGER  the rank that waited longest
--   reason              VARCHAR  why the calls are not matched; NULL if they are
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
        sum(wait_ns)::BIGINT AS all_wait_ns,
        100.0 * sum(wait_ns)::BIGINT / nullif(sum(dur_ns), 0)::BIGINT AS wait_pct,
        any_value(rank) FILTER (is_last) AS straggler_rank,
        arg_max(rank, (wait_ns, -rank)) AS longest_waiting_rank,
        NULL::VARCHAR AS reason
    FROM collective_matches
    WHERE reason IS NULL
    GROUP BY match_id, class, pg_name
),

worst AS (
    SELECT * RENAME (all_wait_ns AS wait_ns)
    FROM matched
    QUALIFY
        $limit = 0
        OR row_number() OVER (ORDER BY all_wait_ns DESC, class, pg_name, number, match_id) <= $limit
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
    longest_waiting_rank, reason
FROM worst
UNION ALL
SELECT
    class, collective, pg_name, NULL, NULL, call_count, rank_count, expected_count, message_bytes,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, reason
FROM unmatched
ORDER BY wait_ns DESC NULLS LAST, class, pg_name, matched_by, number, reason
