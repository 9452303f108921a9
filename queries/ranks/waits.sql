-- Waits for late ranks, by straggler and process group.
-- A wait is the duration of a collective minus its shortest duration on any rank; clocks of different ranks are not
-- compared. passed_on_ns is the part of the wait that behind_rank caused: the straggler had waited for that rank.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   limit  BIGINT = 50  number of rows, longest waits first; 0 for all
-- Columns:
--   straggler_rank        INTEGER  rank that arrived last
--   node                  VARCHAR
--   dimension             VARCHAR  world, tensor, data, pipeline, expert, context, or mixed; NULL if unknown
--   pg_name               VARCHAR
--   class                 VARCHAR  class of the collectives, as in table kernel_class
--   match_count           BIGINT   number of collectives in which other ranks waited for the straggler
--   wait_ns               BIGINT   sum of waits of other ranks, ns
--   passed_on_ns          BIGINT   part explained by waits of the straggler since the previous collective of the group, ns
--   behind_rank           INTEGER  rank that the straggler mostly waited for; NULL if none
--   waiting_rank_count    BIGINT   number of ranks that waited, or of devices if the ranks are unknown
--   longest_waiting_rank  INTEGER  rank with the longest single wait
--   max_wait_ns           BIGINT   longest single wait, ns
--   wait_pct              DOUBLE   share of all waits of the run, 0 to 100
--   is_passed_on          BOOLEAN  most of wait_ns is passed on
-- Keep:     straggler_rank, dimension, pg_name, class, wait_ns, wait_pct, waiting_rank_count, longest_waiting_rank,
--           max_wait_ns, passed_on_ns, behind_rank
-- Invariant: passed_on_ns <= wait_ns AND max_wait_ns <= wait_ns AND match_count > 0
-- Empty: no collective is matched between ranks, or no rank waited in a matched one

WITH matched AS (
    SELECT
        *,
        regexp_replace(match_id, '/(seq|order)/\d+/\d+$', '') AS group_key,
        wait_ns > 0 AS has_waited,
        any_value(rank) FILTER (is_last) OVER (PARTITION BY match_id) AS straggler_rank
    FROM collective_matches
    WHERE reason IS NULL
),

followed AS (
    SELECT
        *,
        sum(wait_ns) OVER before AS waited_before_ns,
        coalesce(sum(wait_ns) OVER before, 0) + wait_ns AS waited,
        if(lag(has_waited) OVER before, lag(straggler_rank) OVER before, NULL) AS behind_rank
    FROM matched
    WINDOW before AS (
        PARTITION BY trace_id, device ORDER BY ts_ns, event_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

straggler AS (
    SELECT
        match_id, trace_id, rank, behind_rank,
        coalesce(waited_before_ns, 0) - coalesce(
            lag(waited) OVER (PARTITION BY trace_id, device, group_key ORDER BY ts_ns, event_id),
            0
        ) AS own_wait_ns
    FROM followed
    QUALIFY is_last
),

one AS (
    SELECT
        m.match_id, m.rank AS waiting_rank, (m.trace_id, m.device) AS waiting_device,
        m.pg_name, m.class, m.wait_ns, s.trace_id, s.rank AS straggler_rank, s.behind_rank,
        least(m.wait_ns, greatest(s.own_wait_ns, 0)) AS passed_on_ns
    FROM matched AS m
    INNER JOIN straggler AS s USING (match_id)
    WHERE m.wait_ns > 0 AND NOT m.is_last
),

summed AS (
    SELECT
        trace_id, straggler_rank, pg_name, class,
        count(DISTINCT match_id) AS match_count,
        sum(wait_ns)::BIGINT AS wait_ns,
        sum(passed_on_ns)::BIGINT AS passed_on_ns,
        mode(behind_rank ORDER BY behind_rank) FILTER (passed_on_ns > 0) AS behind_rank,
        coalesce(
            nullif(count(DISTINCT waiting_rank), 0), count(DISTINCT waiting_device)
        ) AS waiting_rank_count,
        arg_max(waiting_rank, (wait_ns, -waiting_rank)) AS longest_waiting_rank,
        max(wait_ns) AS max_wait_ns
    FROM one
    GROUP BY trace_id, straggler_rank, pg_name, class
)

SELECT
    s.straggler_rank, n.node, dimension_of(s.pg_name, s.straggler_rank) AS dimension, s.pg_name,
    s.class, s.match_count, s.wait_ns, s.passed_on_ns, s.behind_rank, s.waiting_rank_count,
    s.longest_waiting_rank, s.max_wait_ns,
    100.0 * s.wait_ns / sum(s.wait_ns) OVER ()::BIGINT AS wait_pct,
    2 * s.passed_on_ns > s.wait_ns AS is_passed_on
FROM summed AS s
LEFT JOIN rank_nodes() AS n USING (trace_id)
QUALIFY
    $limit = 0
    OR row_number() OVER (
        ORDER BY s.wait_ns DESC, s.straggler_rank, s.class, s.pg_name, s.trace_id
    ) <= $limit
ORDER BY s.wait_ns DESC, s.straggler_rank, s.class, s.pg_name, s.trace_id
