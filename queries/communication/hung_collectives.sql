-- Collectives that some ranks did not enter or finish, or called differently.
-- Each row is a collective or an unfinished point-to-point call in flight recorder dumps. A rank is missing if its last
-- call in the group came earlier, or if its complete dump has no call in the group. Calls that later calls overwrote in
-- a dump are ignored. Calls with the same sequence number are one coalesced collective. Sizes of all_to_all, scatter,
-- and *_v may differ, and so may types of scatter and broadcast. A gloo call is finished if its record is retired.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   limit  BIGINT = 20  number of rows per group, earliest first; 0 for all
-- Columns:
--   pg_name VARCHAR, pg_desc VARCHAR
--   seq             BIGINT   sequence number within the group
--   is_p2p          BOOLEAN  point-to-point call (numbered separately)
--   names           VARCHAR  names of the calls, over all ranks
--   sizes           VARCHAR  input sizes
--   problem         VARCHAR  missing, mismatch, or unfinished
--   missing_ranks   VARCHAR  ranks that did not enter the collective
--   waiting_ranks   VARCHAR  ranks that entered the collective but did not finish it
--   finished_ranks  VARCHAR  ranks that finished the collective
--   undumped_ranks  VARCHAR  ranks without a dump
--   line            VARCHAR  program line of the call on a waiting rank, or else on any rank
-- Keep:     pg_name, seq, problem, missing_ranks, waiting_ranks, names, line
-- Empty: event: the files contain no events
-- Empty: all ranks entered and finished every collective in the dumps

WITH described AS (
    SELECT
        trace_id, pg_name,
        any_value(try_cast(ranks AS BIGINT[])) AS ranks
    FROM process_group
    WHERE json_array_length(ranks) > 0
    GROUP BY trace_id, pg_name
),

entry AS (
    SELECT
        t.trace_id,
        coalesce(t.rank::VARCHAR, '#' || t.trace_id) AS rank,
        e.args ->> 'pg_name' AS pg_name,
        coalesce(d.ranks, []) AS ranks,
        e.args ->> 'pg_desc' AS pg_desc,
        (e.args ->> 'seq')::BIGINT AS seq,
        (e.args ->> 'is_p2p')::BOOLEAN AS is_p2p,
        e.args ->> 'input_sizes' AS sizes,
        e.args ->> 'input_dtypes' AS types,
        e.args ->> 'Line' AS line,
        e.args ->> 'state' = 'completed'
        OR (starts_with(e.name, 'gloo:') AND coalesce(e.args ->> 'retired' = 'true', FALSE))
            AS is_finished,
        (e.args ->> 'record_id')::BIGINT AS record_id,
        e.name, e.ts_ns, e.event_id
    FROM event AS e
    INNER JOIN trace AS t USING (trace_id)
    LEFT JOIN described AS d ON e.trace_id = d.trace_id AND e.args ->> 'pg_name' = d.pg_name
    WHERE e.category = 'flight_recorder'
),

-- Combine calls of a rank that have the same sequence number.
call AS (
    SELECT
        rank, pg_name, ranks, is_p2p, seq,
        if(is_p2p, rank, NULL) AS p2p_rank,
        any_value(pg_desc) AS pg_desc,
        string_agg(name, ' + ' ORDER BY event_id) AS name,
        string_agg(sizes, ' + ' ORDER BY event_id) AS sizes,
        list(
            CASE
                WHEN regexp_matches(name, ':(all_to_all|scatter|coalesced)|_v\b|_v_') THEN name
                WHEN name LIKE '%:broadcast' THEN concat_ws('|', name, sizes)
                ELSE concat_ws('|', name, sizes, types)
            END ORDER BY event_id
        ) AS form,
        bool_and(is_finished) AS is_finished,
        any_value(line) AS line,
        min(ts_ns) AS ts_ns
    FROM entry
    GROUP BY rank, pg_name, ranks, is_p2p, seq
),

collective AS (
    SELECT
        pg_name, ranks, is_p2p, p2p_rank, seq,
        any_value(pg_desc) AS pg_desc,
        string_agg(DISTINCT name, ', ' ORDER BY name) AS names,
        string_agg(DISTINCT sizes, ', ' ORDER BY sizes) AS sizes,
        count(DISTINCT form) > 1 AS is_mixed,
        string_agg(rank, ', ' ORDER BY try_cast(rank AS BIGINT), rank)
        FILTER (NOT is_finished) AS waiting_ranks,
        string_agg(rank, ', ' ORDER BY try_cast(rank AS BIGINT), rank)
        FILTER (is_finished) AS finished_ranks,
        coalesce(any_value(line) FILTER (NOT is_finished), any_value(line)) AS line,
        min(ts_ns) AS ts_ns
    FROM call
    GROUP BY pg_name, ranks, is_p2p, p2p_rank, seq
),

dump AS (
    SELECT
        t.trace_id,
        coalesce(t.rank::VARCHAR, '#' || t.trace_id) AS rank,
        coalesce(min(e.record_id), 0) = 0 AS is_whole
    FROM trace AS t
    LEFT JOIN entry AS e USING (trace_id)
    -- A dump may be empty, but profiler traces of the same ranks are no dumps.
    WHERE
        t.trace_id NOT IN (
            SELECT trace_id FROM event_kind WHERE category IS DISTINCT FROM 'flight_recorder'
        )
    GROUP BY t.trace_id, t.rank
),

listed AS (
    SELECT DISTINCT pg_name, ranks, unnest(ranks)::VARCHAR AS rank
    FROM described
    UNION
    SELECT DISTINCT pg_name, ranks, rank
    FROM entry
),

last_call AS (
    SELECT rank, pg_name, ranks, max(seq) AS seq
    FROM entry
    WHERE NOT is_p2p
    GROUP BY rank, pg_name, ranks
),

member AS (
    SELECT
        m.pg_name, m.ranks, m.rank,
        bool_or(d.rank IS NOT NULL) AS has_dump,
        max(coalesce(l.seq, if(d.is_whole, 0, NULL))) AS last_seq
    FROM listed AS m
    LEFT JOIN dump AS d USING (rank)
    LEFT JOIN last_call AS l USING (rank, pg_name, ranks)
    GROUP BY m.pg_name, m.ranks, m.rank
),

absent AS (
    SELECT
        c.pg_name, c.ranks, c.is_p2p, c.seq,
        string_agg(m.rank, ', ' ORDER BY try_cast(m.rank AS BIGINT), m.rank)
        FILTER (m.has_dump AND c.seq > m.last_seq) AS missing_ranks,
        string_agg(m.rank, ', ' ORDER BY try_cast(m.rank AS BIGINT), m.rank)
        FILTER (NOT m.has_dump) AS undumped_ranks
    FROM collective AS c
    INNER JOIN member AS m USING (pg_name, ranks)
    WHERE NOT c.is_p2p
    GROUP BY c.pg_name, c.ranks, c.is_p2p, c.seq
),

result AS (
    SELECT
        *,
        CASE
            WHEN missing_ranks IS NOT NULL THEN 'missing'
            WHEN is_mixed THEN 'mismatch'
            WHEN waiting_ranks IS NOT NULL THEN 'unfinished'
        END AS problem
    FROM collective
    LEFT JOIN absent USING (pg_name, ranks, is_p2p, seq)
)

SELECT
    pg_name, pg_desc, seq, is_p2p, names, sizes, problem, missing_ranks, waiting_ranks,
    finished_ranks, undumped_ranks, line
FROM result
WHERE problem IS NOT NULL
QUALIFY $limit = 0 OR row_number() OVER (PARTITION BY pg_name, ranks, is_p2p ORDER BY seq) <= $limit
ORDER BY ts_ns, pg_name, seq, is_p2p, p2p_rank
