-- Collectives on each device, with process group, message size, and bus factor.
-- One row per device event of kind comm. Details come from the kernel's arguments, or else from the record_param_comms
-- event, the backend's range (nccl:all_reduce), or the c10d op around the launch. The message is the input; for
-- all-gathers, the output. On cpu, a collective has two rows: the c10d op and the backend's span. The span has the
-- class of the latest matching op, because gloo runs a reduce-scatter as an all-reduce. is_transfer marks the row that
-- represents the collective.
--
-- Kind:     table
-- Input:    device_events WHERE kind = 'comm'
-- Columns:
--   trace_id      INTEGER -> trace
--   event_id      BIGINT -> device_events.event_id  device event
--   piece BIGINT, device VARCHAR, stream BIGINT
--   name          VARCHAR                           kernel, op, or span
--   class         VARCHAR
--   class_source  VARCHAR                           source of the class: kernel arguments, record_param_comms, range, op, or name
--   collective    VARCHAR                           name in that source; NULL if only the name of the kernel is known
--   pg_name       VARCHAR                           process group; NULL if unknown
--   pg_desc       VARCHAR
--   pg_ranks      VARCHAR                           global ranks of the process group, as recorded (possibly truncated)
--   group_size    INTEGER
--   seq           BIGINT                            sequence number within the group (Seq)
--   dtype         VARCHAR                           element type
--   message_bytes  BIGINT
--   bus_factor    DOUBLE                            ratio of bus bandwidth to algorithm bandwidth
--   reason        VARCHAR                           why message_bytes or group_size is unknown; else NULL
--   ts_ns BIGINT, dur_ns BIGINT, end_ns BIGINT
--   kind_wall_ns  BIGINT                            part of the union of communication on the device, ns
--   wall_ns       BIGINT                            exposed part, ns
--   step          BIGINT                            step of the event
--   phase         VARCHAR
--   is_transfer   BOOLEAN                           this row represents the collective; of several copies, the first one
--   call_ns       BIGINT                            duration of the collective, ns; for several copies, from the first start to the last end
--   out_bytes     BIGINT                            output size on this rank, bytes; NULL if unknown
--   peer_rank     BIGINT                            global rank of the peer of a send or receive
--   is_send       BOOLEAN                           send rather than receive; NULL for other collectives
--   label         VARCHAR                           purpose in the name of the range around the launch: layers.1 for `FSDP::all_gather (layers.1)`

WITH comm AS (
    SELECT
        e.trace_id, e.event_id, e.piece, e.device, e.stream, e.class AS kernel_class, e.ts_ns,
        e.end_ns, e.dur_ns, e.kind_wall_ns, e.wall_ns, c.step, c.phase, l.ts_ns AS launch_ts_ns,
        regexp_matches(e.category, '(?i)memcpy') AS is_copy,
        l.pid || '/' || l.tid AS launch_thread
    FROM device_events AS e
    INNER JOIN attribution AS c USING (trace_id, event_id, piece)
    LEFT JOIN launch AS l USING (trace_id, launch_id)
    WHERE e.kind = 'comm'
),

-- Device events, and the CPU events that can describe the collectives launched inside them.
source_id AS (
    SELECT trace_id, event_id
    FROM comm
    UNION
    SELECT trace_id, event_id
    FROM event
    WHERE
        category IN ('cpu_op', 'user_annotation', 'Operator')
        AND (
            name = 'record_param_comms'
            OR name LIKE 'c10d::%'
            OR name LIKE 'nccl:%'
            OR name LIKE 'symm_mem::%'
            OR name LIKE 'vllm::all_%'
            OR name LIKE '_C_custom_ar::%'
            OR (category = 'user_annotation' AND regexp_matches(name, comm_label()))
        )
),

source_event AS (
    SELECT
        e.trace_id, e.event_id, e.name,
        coalesce(comm.launch_thread, e.pid || '/' || e.tid) AS thread,
        coalesce(comm.launch_ts_ns, e.ts_ns) AS at_ns,
        coalesce(comm.end_ns, e.ts_ns + e.dur_ns) AS end_ns,
        CASE
            WHEN comm.device <> 'cpu' THEN 'kernel'
            WHEN comm.device = 'cpu' AND e.category = 'user_annotation' THEN 'span'
            WHEN e.name = 'record_param_comms' THEN 'record'
            WHEN e.category = 'user_annotation' AND e.name = 'nccl:coalesced' THEN 'coalesced'
            WHEN e.category = 'user_annotation' AND regexp_matches(e.name, comm_label())
                THEN 'label'
            WHEN e.category = 'user_annotation' THEN 'range'
            ELSE 'op'
        END AS role,
        comm.* EXCLUDE (trace_id, event_id, end_ns),
        json_extract_string(
            e.args, [
                '$."Collective name"',
                '$."Process Group Name"',
                '$."Process Group Description"',
                '$."Process Group Ranks"',
                '$."Group size"',
                '$.Seq',
                '$.dtype',
                '$."In msg nelems"',
                '$."Out msg nelems"',
                '$."Input type"[0]',
                '$."Input Dims"[0]',
                '$."Input Dims"[1]',
                '$."Dst Rank"',
                '$."Src Rank"',
                '$."In split size"'
            ]
        ) AS texts
    FROM source_id AS i
    INNER JOIN event AS e USING (trace_id, event_id)
    LEFT JOIN comm USING (trace_id, event_id)
),

measured_source AS (
    SELECT
        *,
        collective_class(coalesce(texts[1], name)) AS class_of_text,
        -- c10d ops list the output argument first, if they have one. A tensor list without shapes
        -- has no elements, whereas a tensor without dimensions has one.
        try(
            if(
                regexp_matches(name, '^c10d::.*(gather|reduce_scatter|alltoall)'),
                shapes_nelems([texts[12], texts[11]]),
                shapes_nelems(
                    [if(texts[10] = 'TensorList' AND texts[11] = '[]', NULL, texts[11]), NULL]
                )
            )
        ) AS nelems
    FROM source_event
),

described_source AS (
    SELECT
        * EXCLUDE (texts, class_of_text),
        texts[1] IS NOT NULL AS has_arguments,
        if(
            device = 'cpu',
            concat_ws('/', replace(class_of_text, 'reducescatter', 'allreduce'), nelems[1]),
            thread
        ) AS lane,
        {
            name: coalesce(
                texts[1], if(role IN ('op', 'label'), name, regexp_replace(name, '^\w+:', ''))
            ),
            class: class_of_text,
            source: CASE role
                WHEN 'kernel' THEN 'kernel arguments'
                WHEN 'record' THEN 'record_param_comms'
                WHEN 'span' THEN 'range'
                ELSE role
            END,
            end_ns: end_ns,
            pg_name: texts[2],
            pg_desc: texts[3],
            pg_ranks: texts[4],
            group_size: try_cast(texts[5] AS INTEGER),
            seq: try_cast(texts[6] AS BIGINT),
            dtype: dtype_of(coalesce(texts[7], texts[10])),
            in_nelems: addressable(coalesce(try_cast(texts[8] AS BIGINT), nelems[1])),
            out_nelems: addressable(coalesce(try_cast(texts[9] AS BIGINT), nelems[2])),
            in_splits: try_cast(texts[15] AS BIGINT[]),
            peer_rank: coalesce(try_cast(texts[13] AS BIGINT), try_cast(texts[14] AS BIGINT)),
            is_send: if(coalesce(texts[13], texts[14]) IS NULL, NULL, texts[13] IS NOT NULL)
        } AS detail
    FROM measured_source
    WHERE class_of_text IS NOT NULL OR device IS NOT NULL OR role IN ('coalesced', 'label')
),

sourced_comm AS (
    SELECT
        *,
        last_value(if(role = 'record', detail, NULL) IGNORE NULLS) OVER lane AS record,
        last_value(if(role = 'range', detail, NULL) IGNORE NULLS) OVER lane AS annotation,
        last_value(if(role = 'op', detail, NULL) IGNORE NULLS) OVER lane AS op,
        last_value(if(role = 'coalesced', end_ns, NULL) IGNORE NULLS) OVER lane > at_ns
            AS is_coalesced,
        last_value(if(role = 'label', detail, NULL) IGNORE NULLS) OVER lane AS label,
        bool_or(role = 'span') OVER (PARTITION BY trace_id) AS has_spans
    FROM described_source
    WINDOW
        lane AS (
            PARTITION BY trace_id, lane ORDER BY at_ns, device IS NOT NULL, event_id
            ROWS UNBOUNDED PRECEDING
        )
    QUALIFY device IS NOT NULL
),

-- From the most to the least reliable source: the kernel's own arguments, record_param_comms, the
-- backend's range, the op. On cpu: the op, then the span. Each value comes from the first source
-- that has it.
trusted_comm AS (
    SELECT
        * EXCLUDE (detail, record, annotation, op, label),
        if(role = 'kernel' AND has_arguments, detail, NULL) AS own,
        if(at_ns < record.end_ns, record, NULL) AS record,
        if(at_ns < annotation.end_ns, annotation, NULL) AS annotation,
        if(at_ns < op.end_ns OR role = 'span', op, NULL) AS op,
        if(role = 'span', detail, NULL) AS span,
        if(at_ns < label.end_ns, regexp_extract(label.name, comm_label(), 1), NULL) AS label
    FROM sourced_comm
),

known_comm AS (
    SELECT
        *,
        coalesce(own, record, annotation, op, span) AS first_source,
        coalesce(own.class, record.class, annotation.class, op.class, span.class, kernel_class)
            AS class,
        coalesce(own.pg_name, record.pg_name) AS pg_name,
        coalesce(own.dtype, record.dtype, annotation.dtype, op.dtype, span.dtype) AS dtype,
        coalesce(
            own.in_nelems, record.in_nelems, annotation.in_nelems, op.in_nelems, span.in_nelems
        ) AS in_nelems,
        coalesce(own.out_nelems, record.out_nelems, op.out_nelems) AS out_nelems
    FROM trusted_comm
),

-- record_param_comms contains the group size. Without it, use the size of the groups listed in the
-- file if all have the same size.
listed_group AS (
    SELECT trace_id, min(pg_size) AS pg_size
    FROM process_group
    GROUP BY trace_id
    HAVING min(pg_size) = max(pg_size)
),

sized_comm AS (
    SELECT
        k.*,
        try_cast(
            coalesce(
                k.first_source.group_size, g.pg_size,
                -- The sizes of input and output of an all-gather or reduce-scatter differ by the
                -- group size.
                if(
                    collective_of(k.class) IN ('allgather', 'reducescatter'),
                    greatest(
                        k.out_nelems // nullif(k.in_nelems, 0),
                        k.in_nelems // nullif(k.out_nelems, 0)
                    ),
                    NULL
                )
            ) AS INTEGER
        ) AS group_size
    FROM known_comm AS k
    LEFT JOIN listed_group AS g ON k.trace_id = g.trace_id
),

weighed_comm AS (
    SELECT
        *,
        dtype_bytes(dtype)
        * if(
            collective_of(class) = 'allgather',
            coalesce(out_nelems, addressable(try(in_nelems * group_size))),
            in_nelems
        ) AS message_bytes
    FROM sized_comm
),

called_comm AS (
    SELECT
        *,
        -- Each kernel is one collective. All copies of one call are one collective.
        if(
            is_copy,
            (launch_thread, class, coalesce(op.end_ns, record.end_ns, annotation.end_ns))::VARCHAR,
            event_id || '/' || piece
        ) AS call_key
    FROM weighed_comm
),

call_span AS (
    SELECT trace_id, device, call_key, max(end_ns) - min(ts_ns) AS call_ns
    FROM called_comm
    GROUP BY trace_id, device, call_key
),

parted_comm AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id, device, call_key ORDER BY ts_ns, event_id
        ) AS part,
        c.call_ns
    FROM called_comm
    INNER JOIN call_span AS c USING (trace_id, device, call_key)
),

placed_comm AS (
    SELECT
        p.*, t.rank,
        try_cast(p.first_source.pg_ranks AS BIGINT[]) AS ranks,
        -- Part of an all-to-all that stays on this rank.
        p.first_source.in_splits[list_position(ranks, t.rank)] AS own_split,
        -- Some versions of torch record the peer's rank within the group instead of its global
        -- rank.
        if(
            list_contains(ranks, p.first_source.peer_rank)
            AND p.first_source.peer_rank IS DISTINCT FROM t.rank,
            p.first_source.peer_rank,
            coalesce(ranks[p.first_source.peer_rank + 1], p.first_source.peer_rank)
        ) AS peer_rank
    FROM parted_comm AS p
    INNER JOIN trace AS t USING (trace_id)
)

SELECT
    trace_id, event_id, piece, device, stream, name, class,
    if(first_source.class IS NULL, 'name', first_source.source) AS class_source,
    first_source.name AS collective, pg_name, first_source.pg_desc, first_source.pg_ranks,
    group_size, first_source.seq, dtype, message_bytes,
    CASE
        WHEN collective_of(class) = 'alltoall' AND len(first_source.in_splits) = group_size
            THEN 1 - own_split / nullif(list_sum(first_source.in_splits), 0)
        ELSE bus_factor(class, group_size)
    END AS bus_factor,
    CASE
        WHEN message_bytes IS NOT NULL AND group_size IS NOT NULL THEN NULL
        WHEN device <> 'cpu' AND launch_ts_ns IS NULL THEN 'its launch was not recorded'
        WHEN is_coalesced AND in_nelems IS NULL AND out_nelems IS NULL
            THEN 'its calls were coalesced, and their sizes were not recorded'
        WHEN first_source IS NULL THEN 'the launch context shows no collective'
        WHEN in_nelems IS NULL AND out_nelems IS NULL
            THEN 'message size not recorded'
        WHEN dtype IS NULL THEN 'the call does not contain the element type'
        ELSE 'group size not recorded'
    END AS reason, ts_ns, dur_ns, end_ns, kind_wall_ns, wall_ns, step, phase,
    (role <> 'op' OR NOT has_spans) AND part = 1 AS is_transfer,
    call_ns,
    dtype_bytes(dtype) * out_nelems AS out_bytes,
    peer_rank, first_source.is_send, label
FROM placed_comm
ORDER BY trace_id, device, ts_ns, event_id
