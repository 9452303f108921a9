-- Which collectives did some ranks not enter or not finish, or enter with another call or size?
-- From the dumps of NCCL's flight recorder of all ranks: a row is a collective, or a pair of point-to-point calls, of a group by
-- its number there. A rank of the group has entered it if its dump holds it, and is missing if its last one of the group came
-- before; what a dump no longer holds, as the recorder keeps the last ones only, is not looked at.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: event, trace
-- Params:
--   limit  BIGINT = 20  so many of each group, the first ones; 0 for all
-- Columns:
--   pg_name         VARCHAR  name of the process group
--   pg_desc         VARCHAR  its description
--   seq             BIGINT   number of the collective in the group
--   is_p2p          BOOLEAN  point-to-point calls, which are numbered apart
--   names           VARCHAR  what the ranks called
--   sizes           VARCHAR  with which sizes of inputs
--   problem         VARCHAR  missing, mismatch or unfinished
--   missing_ranks   VARCHAR  ranks of the group that have not entered it
--   waiting_ranks   VARCHAR  ranks that have, and have not finished it
--   finished_ranks  VARCHAR  ranks that have finished it
--   line            VARCHAR  line of the program from which a waiting rank called it, or else any
-- Keep:     pg_name, seq, problem, missing_ranks, waiting_ranks, names, line
-- Empty: event: no file holds events
-- Empty: every collective in the dumps was entered and finished by all ranks

WITH entry AS (
    SELECT
        coalesce(t.rank::VARCHAR, '#' || t.trace_id) AS rank,
        e.args ->> 'pg_name' AS pg_name,
        e.args ->> 'pg_desc' AS pg_desc,
        (e.args ->> 'seq')::BIGINT AS seq,
        (e.args ->> 'is_p2p')::BOOLEAN AS is_p2p,
        e.args ->> 'state' AS state,
        e.args ->> 'input_sizes' AS sizes,
        e.args ->> 'Line' AS line,
        e.name,
        e.ts_ns
    FROM event AS e
    INNER JOIN trace AS t USING (trace_id)
    WHERE e.category = 'flight_recorder'
),

-- Point-to-point calls of a number are those of two ranks.
member AS (
    SELECT rank, pg_name, is_p2p, min(seq) AS first_seq, max(seq) AS last_seq
    FROM entry
    GROUP BY ALL
),

collective AS (
    SELECT
        pg_name, is_p2p, seq,
        any_value(pg_desc) AS pg_desc,
        string_agg(DISTINCT name, ', ' ORDER BY name) AS names,
        string_agg(DISTINCT sizes, ', ' ORDER BY sizes) AS sizes,
        count(DISTINCT name) > 1 OR count(DISTINCT sizes) > 1 AS is_mixed,
        string_agg(rank, ', ' ORDER BY try_cast(rank AS BIGINT), rank)
        FILTER (state <> 'completed') AS waiting_ranks,
        string_agg(rank, ', ' ORDER BY try_cast(rank AS BIGINT), rank)
        FILTER (state = 'completed') AS finished_ranks,
        coalesce(any_value(line) FILTER (state <> 'completed'), any_value(line)) AS line,
        min(ts_ns) AS ts_ns
    FROM entry
    GROUP BY pg_name, is_p2p, seq
),

absent AS (
    SELECT
        c.pg_name, c.is_p2p, c.seq,
        string_agg(m.rank, ', ' ORDER BY try_cast(m.rank AS BIGINT), m.rank) AS missing_ranks
    FROM collective AS c
    INNER JOIN member AS m ON c.pg_name = m.pg_name AND c.is_p2p = m.is_p2p AND c.seq > m.last_seq
    WHERE NOT c.is_p2p
    GROUP BY ALL
),

found AS (
    SELECT
        *,
        CASE
            WHEN missing_ranks IS NOT NULL THEN 'missing'
            WHEN is_mixed AND NOT is_p2p THEN 'mismatch'
            WHEN waiting_ranks IS NOT NULL THEN 'unfinished'
        END AS problem
    FROM collective
    LEFT JOIN absent USING (pg_name, is_p2p, seq)
)

SELECT
    pg_name, pg_desc, seq, is_p2p, names, sizes, problem, missing_ranks, waiting_ranks,
    finished_ranks, line
FROM found
WHERE problem IS NOT NULL
QUALIFY $limit = 0 OR row_number() OVER (PARTITION BY pg_name, is_p2p ORDER BY seq) <= $limit
ORDER BY ts_ns, pg_name, seq, is_p2p
