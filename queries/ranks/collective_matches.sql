-- Collectives matched across ranks, with the wait and transfer time of each rank.
-- Collectives are matched by process group and sequence number if recorded. Otherwise, they are matched by order within
-- group and class, if the count is the same on all ranks. The n-th send between two ranks matches the n-th receive. The
-- last rank to arrive has the shortest duration, which is the transfer time. The rest of a longer duration is wait.
-- Clocks of different ranks are not compared.
--
-- Kind:     table
-- Created:  on demand
-- Input:    collective_events
-- Columns:
--   trace_id        INTEGER
--   event_id        BIGINT   device event
--   rank INTEGER, device VARCHAR, class VARCHAR, collective VARCHAR, pg_name VARCHAR, pg_desc VARCHAR
--   matched_by      VARCHAR  seq or order
--   number          BIGINT   sequence number, or position within group and class, from 1
--   match_id        VARCHAR  common ID of the collective on all ranks
--   rank_count      BIGINT   number of ranks that recorded the collective
--   expected_count  INTEGER  size of the group, or of the job if the group is unknown; 2 for send/receive pairs
--   message_bytes   BIGINT
--   dur_ns          BIGINT   duration on this rank, ns
--   transfer_ns     BIGINT   shortest duration of all ranks, ns; NULL if not matched
--   wait_ns         BIGINT   dur_ns - transfer_ns, ns; NULL if not matched
--   is_last         BOOLEAN  this rank arrived last, and others waited; NULL if not matched
--   reason          VARCHAR  why the collective is not matched; else NULL
--   own_ns          BIGINT   time from the end of all previous communication on the device to the start, ns; 0 for the first collective
--   is_first        BOOLEAN  first collective of the device
--   sender_rank     BIGINT   sender of a send/receive pair
--   receiver_rank   BIGINT   receiver of a send/receive pair
--   ts_ns           BIGINT   start on the rank's clock, ns
--   end_ns          BIGINT   end on the rank's clock, ns
--   wall_ns         BIGINT   exposed part of the duration, ns
--   bus_factor      DOUBLE   ratio of bus bandwidth to algorithm bandwidth

WITH listed AS (
    SELECT trace_id, pg_name, min(hash(ranks::VARCHAR))::VARCHAR AS ranks_key
    FROM process_group
    GROUP BY trace_id, pg_name
),

-- The sequence number of a send counts only calls of the sending rank.
called AS (
    SELECT
        c.* EXCLUDE (reason) REPLACE (c.call_ns AS dur_ns, c.ts_ns + c.call_ns AS end_ns),
        t.rank, t.world_size,
        c.peer_rank IS NOT NULL AND t.rank IS NOT NULL AS is_pair,
        if(c.is_send, t.rank, c.peer_rank) AS sender_rank,
        if(c.is_send, c.peer_rank, t.rank) AS receiver_rank,
        coalesce(if(c.pg_ranks IS NULL, NULL, hash(c.pg_ranks)::VARCHAR), l.ranks_key)
            AS ranks_key
    FROM collective_events AS c
    INNER JOIN trace AS t USING (trace_id)
    LEFT JOIN listed AS l USING (trace_id, pg_name)
    WHERE c.is_transfer AND c.piece = 0
),

numbered AS (
    SELECT
        *,
        if(
            is_pair,
            concat_ws('/', class, sender_rank, receiver_rank),
            concat_ws('/', pg_name, ranks_key, class)
        ) AS family,
        if(seq IS NULL OR is_pair, 'order', 'seq') AS matched_by,
        if(is_pair, 2, coalesce(group_size, world_size)) AS expected_count,
        gap_before_ns((trace_id, device), ts_ns, end_ns, event_id) AS gap_ns
    FROM called
),

ordered AS (
    SELECT
        *,
        if(
            matched_by = 'seq',
            seq,
            row_number() OVER (PARTITION BY trace_id, device, family ORDER BY ts_ns, event_id)
        ) AS number,
        count(*) OVER (PARTITION BY trace_id, device, family) AS family_count
    FROM numbered
),

-- If a call runs as several kernels, all of them have the same sequence number.
keyed AS (
    SELECT
        *,
        concat_ws(
            '/', family, matched_by, number,
            row_number() OVER (
                PARTITION BY trace_id, device, family, matched_by, number
                ORDER BY ts_ns, event_id
            )
        ) AS match_id
    FROM ordered
),

-- Several traces may be of one rank: copies, or later recordings. Only the first counts.
first_of_rank AS (
    SELECT
        *,
        rank IS NOT NULL AND trace_id > min(trace_id) OVER (PARTITION BY match_id, rank)
            AS is_again
    FROM keyed
),

matched_call AS (
    SELECT
        *,
        count(if(NOT is_again, 1, NULL)) OVER match AS rank_count,
        min(dur_ns) FILTER (NOT is_again) OVER match AS min_dur_ns,
        max(dur_ns) FILTER (NOT is_again) OVER match AS max_dur_ns,
        CASE
            WHEN is_again THEN 'another trace of the rank recorded it'
            WHEN collective_of(class) IN ('p2p', 'other') AND NOT is_pair
                THEN 'no collective spans a complete group'
            WHEN count(if(NOT is_again, 1, NULL)) OVER match < 2 THEN 'no other rank recorded it'
            WHEN
                matched_by = 'order'
                AND min(family_count) OVER family_calls < max(family_count) OVER family_calls
                THEN 'ranks recorded different numbers of collectives, and no sequence numbers'
            WHEN
                collective_of(class) <> 'alltoall'
                AND min(message_bytes) OVER match < max(message_bytes) OVER match
                THEN 'ranks recorded different message sizes'
        END AS reason,
        row_number() OVER (
            PARTITION BY match_id ORDER BY is_again, dur_ns, rank NULLS LAST, trace_id, device
        ) AS place
    FROM first_of_rank
    WINDOW match AS (PARTITION BY match_id), family_calls AS (PARTITION BY family)
)

SELECT
    m.trace_id, m.event_id, m.rank, m.device, m.class, m.collective, m.pg_name, m.pg_desc,
    m.matched_by, m.number, m.match_id, m.rank_count, m.expected_count, m.message_bytes,
    m.dur_ns,
    if(m.reason IS NULL, m.min_dur_ns, NULL) AS transfer_ns,
    if(m.reason IS NULL, m.dur_ns - m.min_dur_ns, NULL) AS wait_ns,
    if(m.reason IS NULL, m.place = 1 AND m.max_dur_ns > m.min_dur_ns, NULL) AS is_last,
    m.reason,
    greatest(coalesce(m.gap_ns, 0), 0) AS own_ns,
    m.gap_ns IS NULL AS is_first,
    if(m.is_pair, m.sender_rank, NULL) AS sender_rank,
    if(m.is_pair, m.receiver_rank, NULL) AS receiver_rank,
    m.ts_ns, m.end_ns, m.wall_ns, m.bus_factor
FROM matched_call AS m
