-- Own time between collectives, waits, and caused waits of each rank.
-- Own time does not depend on other ranks or other clocks. Peers are the ranks of the same pipeline stage.
--
-- Kind:     analysis
-- Access:   private
-- Scope:    run
-- Family:   waits per rank
-- Params:
--   mad_count  DOUBLE = 6  outlier threshold in robust standard deviations (1.4826 × median absolute deviation)
--   least_pct  DOUBLE = 1  minimum excess of an outlier over the median, percent
-- Columns:
--   trace_id INTEGER, rank INTEGER, device VARCHAR, node VARCHAR
--   node_source           VARCHAR  how the machine is known
--   stage BIGINT, collective_count BIGINT, matched_count BIGINT, transfer_ns BIGINT, comm_wait_ns BIGINT
--   last_count            BIGINT   number of matched collectives in which the rank arrived last and others waited
--   caused_wait_ns        BIGINT   time that other ranks waited in collectives in which this rank arrived last
--   own_ns                BIGINT
--   peer_count            BIGINT   number of ranks and devices compared, including this one
--   peer_own_ns           DOUBLE
--   limit_ns              DOUBLE   threshold of own_ns for an outlier; NULL for fewer than four peers
--   excess_ns             DOUBLE   excess of own_ns over the median of the peers
--   is_outlier            BOOLEAN  own_ns is at least limit_ns; NULL for fewer than four peers
--   late_ns               DOUBLE   largest delay before one collective, compared with the peers
--   late_class            VARCHAR  class of that collective
--   late_pg_name          VARCHAR
--   late_number           BIGINT   sequence number or position of that collective
--   longest_waiting_rank  INTEGER  rank that waited longest for this rank in one collective
--   max_caused_wait_ns BIGINT, waiting_rank_count BIGINT

WITH stage AS (
    SELECT rank, min(place) AS stage
    FROM parallel_members
    WHERE dimension = 'pipeline'
    GROUP BY rank
),

match_wait AS (
    SELECT
        match_id,
        sum(wait_ns)::BIGINT AS all_wait_ns,
        max(wait_ns) AS max_wait_ns,
        arg_max(rank, (wait_ns, -rank)) AS longest_waiting_rank,
        count(*) FILTER (wait_ns > 0) AS waiting_count
    FROM collective_matches
    WHERE reason IS NULL
    GROUP BY match_id
),

part AS (
    SELECT
        m.trace_id, m.rank, m.device, s.stage, m.class, m.pg_name, m.number,
        hash(
            m.class, m.pg_desc, dimension_of(m.pg_name, m.rank), m.expected_count,
            m.sender_rank = m.rank, m.sender_rank < m.receiver_rank
        ) AS place_key,
        if(m.is_first, greatest(m.ts_ns - w.start_ns, 0), m.own_ns) AS own_ns
    FROM collective_matches AS m
    INNER JOIN device_windows AS w ON m.trace_id = w.trace_id AND m.device = w.device
    LEFT JOIN stage AS s ON m.rank = s.rank
),

usual AS (
    SELECT stage, place_key, number, median(own_ns) AS own_ns
    FROM part
    GROUP BY stage, place_key, number
),

late AS (
    SELECT p.*, p.own_ns - u.own_ns AS late_ns
    FROM part AS p
    INNER JOIN usual AS u
        ON
            p.stage IS NOT DISTINCT FROM u.stage
            AND p.place_key = u.place_key
            AND p.number = u.number
),

own AS (
    SELECT
        trace_id, device,
        any_value(stage) AS stage,
        sum(own_ns)::BIGINT AS own_ns,
        max(late_ns) AS late_ns,
        -- If delays are equal, use the first.
        arg_max(
            {'class': class, 'pg_name': pg_name, 'number': number},
            (late_ns, -number, place_key)
        ) FILTER (late_ns IS NOT NULL) AS late_at
    FROM late
    GROUP BY trace_id, device
),

waited AS (
    SELECT
        m.trace_id, m.device,
        count(*) AS collective_count,
        count(m.wait_ns) AS matched_count,
        sum(m.transfer_ns)::BIGINT AS transfer_ns,
        sum(m.wait_ns)::BIGINT AS comm_wait_ns,
        count(*) FILTER (m.is_last) AS last_count,
        if(
            matched_count > 0, coalesce(sum(e.all_wait_ns) FILTER (m.is_last), 0), NULL
        )::BIGINT AS caused_wait_ns,
        coalesce(max(e.max_wait_ns) FILTER (m.is_last), 0) AS max_caused_wait_ns,
        arg_max(e.longest_waiting_rank, e.max_wait_ns) FILTER (m.is_last AND e.max_wait_ns > 0)
            AS longest_waiting_rank,
        coalesce(max(e.waiting_count) FILTER (m.is_last), 0) AS waiting_rank_count
    FROM collective_matches AS m
    LEFT JOIN match_wait AS e USING (match_id)
    GROUP BY m.trace_id, m.device
),

peer AS (
    SELECT stage, count(*) AS peer_count, median(own_ns) AS own_ns, mad(own_ns) AS mad_ns
    FROM own
    GROUP BY stage
),

measured AS (
    SELECT
        o.*,
        p.peer_count, p.own_ns AS peer_own_ns,
        if(
            p.peer_count >= 4,
            p.own_ns
            + greatest($mad_count * 1.4826 * p.mad_ns, $least_pct * p.own_ns / 100, 1),
            NULL
        ) AS limit_ns
    FROM own AS o
    INNER JOIN peer AS p ON o.stage IS NOT DISTINCT FROM p.stage
)

SELECT
    w.trace_id, w.rank, w.device, n.node, n.node_source, m.stage,
    coalesce(c.collective_count, 0) AS collective_count,
    coalesce(c.matched_count, 0) AS matched_count,
    if(c.trace_id IS NULL, 0, c.transfer_ns) AS transfer_ns,
    if(c.trace_id IS NULL, 0, c.comm_wait_ns) AS comm_wait_ns,
    coalesce(c.last_count, 0) AS last_count,
    if(c.trace_id IS NULL, 0, c.caused_wait_ns) AS caused_wait_ns,
    m.own_ns, m.peer_count, m.peer_own_ns, m.limit_ns,
    m.own_ns - m.peer_own_ns AS excess_ns,
    m.own_ns >= m.limit_ns AS is_outlier,
    m.late_ns, m.late_at.class AS late_class, m.late_at.pg_name AS late_pg_name,
    m.late_at.number AS late_number, c.longest_waiting_rank,
    coalesce(c.max_caused_wait_ns, 0) AS max_caused_wait_ns,
    coalesce(c.waiting_rank_count, 0) AS waiting_rank_count
FROM device_windows AS w
LEFT JOIN rank_nodes() AS n USING (trace_id)
LEFT JOIN waited AS c USING (trace_id, device)
LEFT JOIN measured AS m USING (trace_id, device)
ORDER BY w.rank NULLS LAST, w.trace_id, w.device
