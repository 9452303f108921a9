-- Which collectives of several ranks are one and the same, and how long did each rank wait in it?
-- Collectives are matched by process group and Seq where their calls tell it, else by their order within group and
-- class, which is done only if all ranks have the same number of them. The last rank to arrive has the shortest
-- duration, and that is the transfer; what a rank's own is longer, it waited. Only durations are compared: the clocks
-- of ranks are not.
--
-- Kind:     macro
-- Requires: collective_events
-- Columns:
--   trace_id       INTEGER  the trace
--   event_id       BIGINT   the device event
--   rank           INTEGER  global rank
--   device         VARCHAR  number of the device, or cpu
--   class          VARCHAR  class of the collective, as in table kernel_class
--   collective     VARCHAR  its name, as its call gives it
--   pg_name        VARCHAR  process group, where the call names it
--   matched_by     VARCHAR  seq or order
--   number         BIGINT   Seq, or place in the order of its group and class, from 1
--   match_id       VARCHAR  the same for all ranks of one collective
--   rank_count     BIGINT   ranks that recorded it
--   expected_count INTEGER  ranks of the group; of the job where the group is not known
--   message_bytes  BIGINT   size of the message, bytes
--   dur_ns         BIGINT   duration on this rank, ns
--   transfer_ns    BIGINT   the shortest duration of all ranks, ns; NULL if not matched
--   wait_ns        BIGINT   dur_ns - transfer_ns, ns; NULL if not matched
--   is_last        BOOLEAN  this rank arrived last; NULL if not matched
--   reason         VARCHAR  why it is not matched; NULL if it is

CREATE OR REPLACE MACRO collective_matches() AS TABLE (
    WITH numbered AS (
        SELECT
            c.trace_id,
            c.event_id,
            t.rank,
            c.device,
            c.class,
            c.collective,
            c.pg_name,
            concat_ws('/', c.pg_name, c.pg_ranks, c.class) AS family,
            if(c.seq IS NULL, 'order', 'seq') AS matched_by,
            coalesce(
                c.seq,
                row_number() OVER (
                    PARTITION BY c.trace_id, c.device, c.pg_name, c.pg_ranks, c.class
                    ORDER BY c.ts_ns, c.event_id
                )
            ) AS number,
            count(*) OVER (PARTITION BY c.trace_id, c.device, c.pg_name, c.pg_ranks, c.class)
                AS family_count,
            coalesce(c.group_size, t.world_size) AS expected_count,
            c.message_bytes,
            c.ts_ns,
            c.dur_ns
        FROM collective_events AS c
        INNER JOIN trace AS t ON c.trace_id = t.trace_id
        WHERE c.is_transfer AND c.piece = 0
    ),

    -- A call that runs as several kernels has one Seq for all.
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
        FROM numbered
    ),

    met AS (
        SELECT
            *,
            count(*) OVER match AS rank_count,
            min(dur_ns) OVER match AS min_dur_ns,
            CASE
                WHEN class IN ('comm_p2p', 'comm_other') THEN 'no collective of a whole group'
                WHEN count(*) OVER match < 2 THEN 'no other rank recorded it'
                WHEN
                    matched_by = 'order'
                    AND min(family_count) OVER family_calls < max(family_count) OVER family_calls
                    THEN 'ranks recorded different numbers of them, and no Seq tells which is which'
                WHEN
                    class <> 'comm_alltoall'
                    AND min(message_bytes) OVER match < max(message_bytes) OVER match
                    THEN 'ranks recorded messages of different sizes'
            END AS reason,
            row_number() OVER (
                PARTITION BY match_id ORDER BY dur_ns, rank NULLS LAST, trace_id, device
            ) AS place
        FROM keyed
        WINDOW match AS (PARTITION BY match_id), family_calls AS (PARTITION BY family)
    )

    SELECT
        trace_id,
        event_id,
        rank,
        device,
        class,
        collective,
        pg_name,
        matched_by,
        number,
        match_id,
        rank_count,
        expected_count,
        message_bytes,
        dur_ns,
        if(reason IS NULL, min_dur_ns, NULL) AS transfer_ns,
        if(reason IS NULL, dur_ns - min_dur_ns, NULL) AS wait_ns,
        if(reason IS NULL, place = 1, NULL) AS is_last,
        reason
    FROM met
);
