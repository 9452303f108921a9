-- Functions that map other device numbers in a file to the device numbers of kernels.
-- ROCm numbers the device of a kernel as an agent, and CPUs are agents too. Device descriptions and allocator events
-- use torch's numbers. If both sides have the same number of devices, devices are matched in order. newer_kernels()
-- lists traces whose kernels were built for a later architecture than the named devices; those names are wrong.
-- known_reserved() is the memory that an allocator reserved; it is NULL if the allocator reserves nothing, as on the
-- host, and reports 0.
--
-- Kind:     function
-- Columns:
--   trace_id     INTEGER
--   device       VARCHAR  device number of kernels, or cpu
--   name         VARCHAR  device model (device_names); NULL if unknown
--   device_type  INTEGER  as in table memory (memory_devices)
--   device_id    BIGINT   as in table memory (memory_devices)
--   difference         VARCHAR  architectures according to the kernels and to the file (newer_kernels)

CREATE OR REPLACE MACRO devices_in_order() AS TABLE (
    SELECT
        w.trace_id, w.device,
        a.accelerator = 'hip' AS is_hip,
        row_number()
            OVER (PARTITION BY w.trace_id ORDER BY try_cast(w.device AS BIGINT), w.device)
            AS place,
        count(*) OVER (PARTITION BY w.trace_id) AS device_count
    FROM device_windows AS w
    INNER JOIN accelerator AS a USING (trace_id)
    WHERE w.device <> 'cpu'
);

CREATE OR REPLACE MACRO device_names() AS TABLE (
    WITH listed AS (
        SELECT trace_id, device_id, nullif(any_value(name), '') AS name
        FROM device
        GROUP BY trace_id, device_id
    ),

    -- If all listed devices have the same name, unlisted devices have it too.
    product AS (
        SELECT
            trace_id,
            list(device_id::VARCHAR ORDER BY device_id) AS ids,
            list(name ORDER BY device_id) AS names,
            if(count(name) = count(*) AND min(name) = max(name), min(name), NULL) AS name
        FROM listed
        GROUP BY trace_id
    )

    SELECT
        trace_id, w.device,
        coalesce(
            CASE
                WHEN NOT w.is_hip THEN p.names[list_position(p.ids, w.device)]
                WHEN w.device_count = len(p.names) THEN p.names[w.place]
            END,
            p.name
        ) AS name
    FROM devices_in_order() AS w
    LEFT JOIN product AS p USING (trace_id)
);

CREATE OR REPLACE MACRO memory_devices() AS TABLE (
    WITH memory_device AS (
        SELECT DISTINCT
            trace_id, device_type, device_id,
            coalesce(device_type = 0, device_id < 0, FALSE) AS is_host
        FROM memory
    ),

    placed AS (
        SELECT
            *,
            row_number() OVER (PARTITION BY trace_id, is_host ORDER BY device_id) AS place,
            count(*) OVER (PARTITION BY trace_id, is_host) AS device_count
        FROM memory_device
    )

    SELECT
        m.trace_id, m.device_type, m.device_id,
        CASE WHEN m.is_host THEN 'cpu' ELSE coalesce(w.device, m.device_id::VARCHAR) END AS device
    FROM placed AS m
    LEFT JOIN devices_in_order() AS w
        ON
            m.trace_id = w.trace_id
            AND w.is_hip
            AND m.place = w.place
            AND m.device_count = w.device_count
            AND NOT m.is_host
);

CREATE OR REPLACE MACRO known_reserved(device, allocated_bytes, reserved_bytes) AS
if(device = 'cpu' OR (reserved_bytes = 0 AND allocated_bytes > 0), NULL, reserved_bytes);

-- No device has 64 TiB, and sums must fit in 64 bits.
CREATE OR REPLACE MACRO is_memory_size(bytes) AS
bytes BETWEEN -70_368_744_177_664 AND 70_368_744_177_664;

CREATE OR REPLACE MACRO newer_kernels() AS TABLE (
    WITH capable AS (
        SELECT
            trace_id,
            max(try_cast(split_part(compute_capability, '.', 1) AS INTEGER)) AS major,
            any_value(name) || ' (' || any_value(compute_capability) || ')' AS device
        FROM device
        GROUP BY trace_id
    ),

    built AS (
        SELECT
            trace_id,
            max(
                try_cast(
                    -- Digits may follow: thrust lists architectures times ten (SM_750_800), and a
                    -- mangled name has the length of its next word (4Sm904cute).
                    regexp_extract(name, '(?i)(?:^|[^a-z])sm_?([5-9]\d|1[0-2]\d)', 1) AS INTEGER
                )
            ) AS architecture
        FROM (
            SELECT DISTINCT trace_id, name
            FROM event
            WHERE is_device_work(category) AND contains(lower(name), 'sm')
        ) AS kernel_name
        GROUP BY trace_id
    )

    SELECT
        b.trace_id,
        format('kernels are built for sm_{}, and the file says {}', b.architecture, c.device)
            AS difference
    FROM built AS b
    INNER JOIN capable AS c USING (trace_id)
    WHERE b.architecture // 10 > c.major
);
