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
--   kind_wall_ns  BIGINT                            communication time, exposed or not, ns; overlap counts once
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
        e.trace_id, e.event_id, e.piece, e.device, e.stream, e.name, e.class AS kernel_class,
        e.ts_ns, e.end_ns, e.dur_ns, e.kind_wall_ns, e.wall_ns, c.step, c.phase,
        l.ts_ns AS launch_ts_ns,
        regexp_matches(e.category, '(?i)memcpy') AS is_copy,
        e.device = 'cpu' AND e.category = 'user_annotation' AS is_span,
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
        e.trace_id, e.event_id, e.name, comm.device,
        coalesce(comm.launch_thread, e.pid || '/' || e.tid) AS thread,
        coalesce(comm.launch_ts_ns, e.ts_ns) AS at_ns,
        coalesce(comm.end_ns, e.ts_ns + e.dur_ns) AS end_ns,
        CASE
            WHEN comm.device <> 'cpu' THEN 'kernel'
            WHEN comm.is_span THEN 'span'
            WHEN e.name = 'record_param_comms' THEN 'record'
            WHEN e.category = 'user_annotation' AND e.name = 'nccl:coalesced' THEN 'coalesced'
            WHEN e.category = 'user_annotation' AND regexp_matches(e.name, comm_label())
                THEN 'label'
            WHEN e.category = 'user_annotation' THEN 'range'
            ELSE 'op'
        END AS role,
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
        ) AS texts,
        if(role <> 'label', collective_class(coalesce(texts[1], e.name)), NULL) AS class,
        -- c10d ops list the output argument first, if they have one. A tensor list without shapes
        -- has no elements, whereas a tensor without dimensions has one.
        try(
            if(
                regexp_matches(e.name, '^c10d::.*(gather|reduce_scatter|alltoall)'),
                shapes_nelems([texts[12], texts[11]]),
                shapes_nelems(
                    [if(texts[10] = 'TensorList' AND texts[11] = '[]', NULL, texts[11]), NULL]
                )
            )
        ) AS nelems
    FROM source_id AS i
    INNER JOIN event AS e USING (trace_id, event_id)
    LEFT JOIN comm USING (trace_id, event_id)
),

source AS (
    SELECT
        trace_id, event_id, device, at_ns, end_ns, role, class,
        if(
            device = 'cpu',
            concat_ws('/', replace(class, 'reducescatter', 'allreduce'), nelems[1]),
            thread
        ) AS lane,
        texts[1] IS NOT NULL AS has_arguments,
        CASE role
            WHEN 'kernel' THEN 'kernel arguments'
            WHEN 'record' THEN 'record_param_comms'
            WHEN 'span' THEN 'range'
            ELSE role
        END AS source,
        coalesce(
            texts[1], if(role IN ('op', 'label'), name, regexp_replace(name, '^\w+:', ''))
        ) AS name,
        texts[2] AS pg_name,
        texts[3] AS pg_desc,
        texts[4] AS pg_ranks,
        try_cast(texts[5] AS INTEGER) AS group_size,
        try_cast(texts[6] AS BIGINT) AS seq,
        dtype_of(coalesce(texts[7], texts[10])) AS dtype,
        addressable(coalesce(try_cast(texts[8] AS BIGINT), nelems[1])) AS in_nelems,
        addressable(coalesce(try_cast(texts[9] AS BIGINT), nelems[2])) AS out_nelems,
        try_cast(texts[15] AS BIGINT[]) AS in_splits,
        coalesce(try_cast(texts[13] AS BIGINT), try_cast(texts[14] AS BIGINT)) AS peer_rank,
        if(coalesce(texts[13], texts[14]) IS NULL, NULL, texts[13] IS NOT NULL) AS is_send
    FROM source_event
    WHERE class IS NOT NULL OR device IS NOT NULL OR role IN ('coalesced', 'label')
),

-- From the most to the least reliable source: the kernel's own arguments, record_param_comms, the
-- backend's range, the op. On cpu: the op, then the span. Labels and coalescing ranges follow.
candidate AS (
    SELECT
        trace_id, event_id, role, at_ns,
        unnest(
            [
                if(role = 'kernel' AND has_arguments, event_id, NULL),
                any_value(if(role = 'record', event_id, NULL)) OVER lane,
                any_value(if(role = 'range', event_id, NULL)) OVER lane,
                any_value(if(role = 'op', event_id, NULL)) OVER lane,
                if(role = 'span', event_id, NULL),
                any_value(if(role = 'label', event_id, NULL)) OVER lane,
                any_value(if(role = 'coalesced', event_id, NULL)) OVER lane
            ]
        ) AS source_id,
        unnest(range(7)) AS place
    FROM source
    WINDOW
        lane AS (
            PARTITION BY trace_id, lane
            ORDER BY at_ns DESC, device IS NOT NULL DESC, event_id DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
    QUALIFY device IS NOT NULL
),

-- Each value comes from the first source that has it. A source counts while it is open. The
-- collective itself always counts, and so does the op of a span.
described AS (
    SELECT
        c.trace_id, c.event_id,
        arg_min(s, c.place) FILTER (c.place < 5) AS first_source,
        arg_min(s.class, c.place) AS source_class,
        arg_min(s.pg_name, c.place) AS pg_name,
        arg_min(s.dtype, c.place) AS dtype,
        arg_min(s.in_nelems, c.place) AS in_nelems,
        arg_min(s.out_nelems, c.place) AS out_nelems,
        max(s.end_ns) FILTER (c.place IN (1, 2, 3)) AS call_end_ns,
        max(regexp_extract(s.name, comm_label(), 1)) FILTER (s.role = 'label') AS label,
        bool_or(s.role = 'coalesced') AS is_coalesced
    FROM candidate AS c
    INNER JOIN source AS s ON c.trace_id = s.trace_id AND c.source_id = s.event_id
    WHERE c.at_ns < s.end_ns OR c.place = 0 OR (c.role = 'span' AND c.place > 2)
    GROUP BY c.trace_id, c.event_id
),

-- record_param_comms contains the group size. Without it, use the size of the groups listed in the
-- file if all have the same size.
listed_group AS (
    SELECT trace_id, min(pg_size) AS pg_size
    FROM process_group
    GROUP BY trace_id
    HAVING min(pg_size) = max(pg_size)
),

known_comm AS (
    SELECT
        c.*, d.* EXCLUDE (trace_id, event_id),
        coalesce(source_class, kernel_class) AS class,
        collective_of(class) AS collective_kind,
        try_cast(
            coalesce(
                d.first_source.group_size, g.pg_size,
                -- The sizes of input and output of an all-gather or reduce-scatter differ by the
                -- group size.
                if(
                    collective_kind IN ('allgather', 'reducescatter'),
                    greatest(
                        d.out_nelems // nullif(d.in_nelems, 0),
                        d.in_nelems // nullif(d.out_nelems, 0)
                    ),
                    NULL
                )
            ) AS INTEGER
        ) AS group_size,
        dtype_bytes(d.dtype) AS dtype_bytes,
        try_cast(d.first_source.pg_ranks AS BIGINT[]) AS ranks,
        -- Part of an all-to-all that stays on this rank.
        d.first_source.in_splits[list_position(ranks, t.rank)] AS own_split,
        t.rank
    FROM comm AS c
    INNER JOIN trace AS t USING (trace_id)
    LEFT JOIN described AS d USING (trace_id, event_id)
    LEFT JOIN listed_group AS g USING (trace_id)
)

SELECT
    trace_id, event_id, piece, device, stream, name, class,
    if(first_source.class IS NULL, 'name', first_source.source) AS class_source,
    first_source.name AS collective, pg_name, first_source.pg_desc, first_source.pg_ranks,
    group_size, first_source.seq, dtype,
    dtype_bytes
    * if(
        collective_kind = 'allgather',
        coalesce(out_nelems, addressable(try(in_nelems * group_size))),
        in_nelems
    ) AS message_bytes,
    CASE
        WHEN collective_kind = 'alltoall' AND len(first_source.in_splits) = group_size
            THEN 1 - own_split / nullif(list_sum(first_source.in_splits), 0)
        ELSE wire_factor(collective_kind, group_size)
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
    (device <> 'cpu' OR is_span OR NOT bool_or(is_span) OVER (PARTITION BY trace_id))
    AND row_number() OVER (call ORDER BY ts_ns, event_id) = 1 AS is_transfer,
    max(ts_ns + dur_ns) OVER call - min(ts_ns) OVER call AS call_ns,
    dtype_bytes * out_nelems AS out_bytes,
    -- Some versions of torch record the peer's rank within the group instead of its global rank.
    if(
        list_contains(ranks, first_source.peer_rank)
        AND first_source.peer_rank IS DISTINCT FROM rank,
        first_source.peer_rank,
        coalesce(ranks[first_source.peer_rank + 1], first_source.peer_rank)
    ) AS peer_rank,
    first_source.is_send, label
FROM known_comm
-- Each kernel is one collective. All copies of one call are one collective.
WINDOW
    call AS (
        PARTITION BY
            trace_id, device, launch_thread, class, call_end_ns, if(is_copy, NULL, event_id)
    )
ORDER BY trace_id, device, ts_ns, event_id
