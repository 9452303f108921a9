-- Measured peak rates of each device, or the reason why they are missing.
-- Contains the highest rate of each kind from `--peak-rates`, or else from the run folder. A rate applies only to
-- devices with the same name and number of SMs, because a partition may have the name of the full device. On a CPU, the
-- number of threads must match, and for collectives, the number of machines. Rates from the command line also apply to
-- devices without a name.
--
-- Kind:     table
-- Created:  on demand
-- Input:    peak_rate_point
-- Columns:
--   trace_id         INTEGER -> trace
--   device           VARCHAR  device number, or cpu; * for all devices of the trace
--   device_name      VARCHAR  device model, as in the measurement
--   thread_count     INTEGER  host threads of the measurement; NULL if irrelevant
--   kind             VARCHAR  product (GEMM), memory, copy, or collective; NULL if the reason applies to all kinds
--   dtype            VARCHAR  operand type of a GEMM
--   op               VARCHAR  copy direction (h2d, d2h, d2d, h2h) or collective (all_reduce, …)
--   memory           VARCHAR  host memory of a copy: pinned or pageable
--   backend          VARCHAR  nccl or gloo
--   group_size       INTEGER  number of ranks of a collective
--   flop_per_s       DOUBLE   rate of a GEMM, FLOP/s
--   bytes_per_s      DOUBLE   rate of a copy, or of memory (read and written), bytes/s
--   bus_bytes_per_s  DOUBLE   bus bandwidth of a collective, bytes/s
--   origin           VARCHAR  given (by --peak-rates) or run folder
--   measured_at      VARCHAR  time of the measurement, UTC; NULL if unknown
--   source           VARCHAR  run, date, and point of the measurement
--   reason           VARCHAR  why no rate applies; else NULL

WITH peak_rate AS MATERIALIZED (
    SELECT
        c.*,
        p.origin, p.measured_at, p.node_count, p.is_known,
        lower(trim(c.device_name)) AS plain_name,
        if(
            p.family = 'gemm',
            if(p.batch > 1, p.batch || ' × ', '')
            || format('{} {} × {} × {}', p.op, p.m, p.n, p.k),
            format(
                '{}{}, {:,} bytes',
                p.op, coalesce(' ' || nullif(p.memory, ''), ''), coalesce(p.message_bytes, 0)
            )
        ) AS what,
        concat_ws(': ', nullif(concat_ws(', ', p.run_name, p.measured_at[:10]), ''), what)
            AS source
    FROM bench_peak_rates('peak_rate_point') AS c
    INNER JOIN peak_rate_point AS p ON c.point_id = p.point_id
),

-- In tracekit's own workloads, only OMP_NUM_THREADS determines the number of threads of a rank.
host AS (
    SELECT
        a.trace_id,
        a.accelerator = 'cpu' AS is_cpu,
        list_distinct(r.devices) AS products,
        nullif(trim(r.processor), '') AS processor,
        coalesce(
            r.thread_count,
            if(
                r.stage IN ('pretrain', 'finetune'),
                try_cast(r.variables ->> '$.OMP_NUM_THREADS' AS INTEGER),
                NULL
            )
        ) AS thread_count,
        r.node_count
    FROM accelerator AS a
    INNER JOIN trace AS t ON a.trace_id = t.trace_id
    LEFT JOIN run AS r ON t.run_id = r.run_id
),

listed AS (
    SELECT
        trace_id,
        device_id::VARCHAR AS device,
        nullif(trim(name), '') AS name,
        sm_count AS unit_count
    FROM device
),

-- If all listed devices are of one model, all devices of the trace share one row: traces do not
-- always list the devices that ran.
alike AS (
    SELECT trace_id, count(DISTINCT {name: name, unit_count: unit_count}) = 1 AS is_one_kind
    FROM listed
    GROUP BY trace_id
),

-- If the trace does not name its device, use the name in the manifest.
placed AS (
    SELECT DISTINCT
        h.trace_id, h.is_cpu, h.thread_count, h.node_count,
        CASE
            WHEN h.is_cpu THEN 'cpu'
            WHEN coalesce(k.is_one_kind, TRUE) THEN '*'
            ELSE d.device
        END AS device,
        CASE
            WHEN h.is_cpu THEN h.processor
            WHEN d.trace_id IS NOT NULL THEN d.name
            WHEN len(h.products) = 1 THEN h.products[1]
        END AS name,
        d.unit_count
    FROM host AS h
    LEFT JOIN listed AS d ON h.trace_id = d.trace_id AND NOT h.is_cpu
    LEFT JOIN alike AS k ON h.trace_id = k.trace_id
),

-- A device that has an SM count but matches no data sheet is unknown or a partition.
peaked AS (
    SELECT DISTINCT trace_id, device
    FROM device_peak
),

place AS (
    SELECT p.*, p.unit_count IS NOT NULL AND d.trace_id IS NULL AS is_part
    FROM placed AS p
    LEFT JOIN peaked AS d ON p.trace_id = d.trace_id AND p.device = d.device
),

paired AS MATERIALIZED (
    SELECT
        p.trace_id, p.device, p.is_cpu, p.name, p.is_part,
        p.unit_count AS own_unit_count,
        p.thread_count AS own_thread_count,
        p.node_count AS own_node_count,
        coalesce(lower(trim(p.name)) = c.plain_name, TRUE) AS is_named,
        c.* EXCLUDE (is_cpu)
    FROM place AS p
    INNER JOIN peak_rate AS c ON p.is_cpu = c.is_cpu
),

named AS (
    SELECT
        trace_id, device,
        count(DISTINCT plain_name) AS name_count,
        bool_or(is_named) AS has_own,
        list_sort(list(DISTINCT trim(device_name))) AS names
    FROM paired
    GROUP BY trace_id, device
),

origin AS (
    SELECT any_value(origin) AS origin
    FROM peak_rate_point
),

refused AS MATERIALIZED (
    SELECT
        p.trace_id, p.device, o.origin,
        if(p.is_cpu, 'processor', 'device') AS kind_of_device,
        o.origin = 'given' AS is_given,
        CASE
            WHEN n.trace_id IS NULL AND is_given
                THEN format(
                    'the peak rates contain {}',
                    if(p.is_cpu, 'no CPU measurement', 'only CPU measurements')
                )
            WHEN n.trace_id IS NULL THEN NULL
            WHEN p.name IS NULL AND NOT is_given
                THEN format(
                    'unknown {}; use --peak-rates to choose the peak rates', kind_of_device
                )
            WHEN p.name IS NULL AND n.name_count > 1
                THEN format(
                    'the peak rates were measured on several devices, '
                    'and the {} of the run is unknown',
                    kind_of_device
                )
            WHEN NOT n.has_own AND is_given
                THEN format(
                    'the peak rates were measured on {}{}, but this {} is {}',
                    array_to_string(n.names[:3], ' and '),
                    if(len(n.names) > 3, format(' and {} more', len(n.names) - 3), ''),
                    kind_of_device,
                    trim(p.name)
                )
        END AS reason
    FROM place AS p
    CROSS JOIN origin AS o
    LEFT JOIN named AS n ON p.trace_id = n.trace_id AND p.device = n.device
),

judged AS MATERIALIZED (
    SELECT
        p.*,
        CASE
            WHEN p.unit_count <> p.own_unit_count
                THEN format(
                    'measured on {} multiprocessors of a device with this name, '
                    'this one has {}', p.unit_count, p.own_unit_count
                )
            WHEN p.unit_count IS NULL AND p.is_known AND p.is_part
                THEN concat(
                    'this is a partition of a device, ',
                    'and the measurement does not show which one it used'
                )
            WHEN p.kind = 'collective' AND p.node_count <> p.own_node_count
                THEN format(
                    'measured on {} machine{}, but the run used {}',
                    p.node_count, if(p.node_count = 1, '', 's'), p.own_node_count
                )
            WHEN p.kind = 'collective' OR NOT p.is_cpu THEN NULL
            WHEN p.thread_count IS NULL
                THEN 'the measurement has no thread count'
            WHEN p.thread_count <> p.own_thread_count
                THEN format(
                    'measured with {} thread{}, but the rank used {} thread{}',
                    p.thread_count, if(p.thread_count = 1, '', 's'),
                    p.own_thread_count, if(p.own_thread_count = 1, '', 's')
                )
            WHEN p.own_thread_count IS NOT NULL THEN NULL
            WHEN
                p.origin <> 'given'
                OR count(DISTINCT coalesce(p.thread_count, -1)) OVER (
                    PARTITION BY p.trace_id, p.device, p.kind
                ) > 1
                THEN 'the thread count of the rank is unknown'
        END AS why_not
    FROM paired AS p
    INNER JOIN refused AS r
        ON p.trace_id = r.trace_id AND p.device = r.device AND r.reason IS NULL
    WHERE p.is_named
),

-- If several points remain, keep the newest. For example, one point may be measured both with and
-- without an SM count.
matched AS (
    SELECT *
    FROM judged
    WHERE why_not IS NULL
    QUALIFY
        row_number() OVER (
            PARTITION BY trace_id, device, kind, dtype, op, memory, backend, group_size
            ORDER BY measured_at DESC NULLS LAST, point_id
        ) = 1
),

refusal AS (
    SELECT trace_id, device, kind, origin, arg_min(why_not, point_id) AS reason
    FROM judged
    GROUP BY trace_id, device, kind, origin
    HAVING count(*) = count(why_not)
    UNION ALL
    SELECT trace_id, device, NULL AS kind, origin, reason
    FROM refused
    WHERE reason IS NOT NULL
)

SELECT
    trace_id, device, device_name, thread_count, kind, dtype, op, memory, backend, group_size,
    flop_per_s, bytes_per_s, bus_bytes_per_s, origin, measured_at, source,
    NULL AS reason
FROM matched
UNION ALL
SELECT
    trace_id, device, NULL, NULL, kind, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, origin, NULL, NULL,
    reason
FROM refusal
ORDER BY trace_id, device, kind, dtype, op, memory, backend, group_size
