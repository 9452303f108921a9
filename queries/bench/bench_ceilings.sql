-- What is the highest rate of each kind that microbenchmarks measured on a device?
-- bench_ceilings('relation') has a row for each kind and device: of the newest run that measured it, the point with the
-- highest rate. A slower newer run counts, not a faster older one: drivers, clocks and limits of power change, and a
-- ceiling says what the device does now. A product is told by its type; a copy by direction and host memory; a
-- collective by op, backend and size of the group, at whichever message it was fastest. On a CPU the number of threads
-- tells devices apart too, but for collectives, which no thread of arithmetic takes part in.
--
-- Kind:     function
-- Access:   private
-- Params:
--   relation  VARCHAR  name of a relation of measured points: point_id, the columns of a line of benchmarks.jsonl, and
--                      measured_at, run_name of their run
-- Columns:
--   point_id         BIGINT   the point
--   kind             VARCHAR  product, memory, copy or collective
--   device_name      VARCHAR  product, as the driver or the processor names it
--   is_cpu           BOOLEAN  the device is a CPU
--   unit_count       INTEGER  its multiprocessors or compute units; NULL if not known
--   thread_count     INTEGER  host threads of arithmetic that measured it; NULL where they do not matter
--   dtype            VARCHAR  of a product: type of the operands
--   op               VARCHAR  of a copy its direction, of a collective the collective; NULL of others
--   memory           VARCHAR  of a copy: kind of the host's memory
--   backend          VARCHAR  of a collective
--   group_size       INTEGER  of a collective: ranks
--   flop_per_s       DOUBLE   of a product, operations/s
--   bytes_per_s      DOUBLE   of a copy: copied; of a memory: read and written, bytes/s
--   bus_bytes_per_s  DOUBLE   of a collective: bus bandwidth, bytes/s

CREATE OR REPLACE MACRO bench_ceilings(relation) AS TABLE (
    WITH measured AS (
        SELECT
            * EXCLUDE (unit_count, thread_count),
            device = 'cpu' AS is_cpu,
            if(is_cpu, NULL, unit_count) AS unit_count,
            if(is_cpu AND family <> 'collective', thread_count, NULL) AS thread_count
        FROM query_table(relation)
        WHERE outcome = 'ok' AND device IS NOT NULL AND device_name IS NOT NULL
    ),

    rated AS (
        SELECT
            point_id,
            'product' AS kind,
            dtype,
            bench_flop_per_s(m, n, k, batch, median_ns) AS flop_per_s,
            flop_per_s AS rate
        FROM measured
        WHERE family = 'gemm'
        UNION ALL BY NAME
        SELECT
            point_id,
            'copy' AS kind,
            op,
            if(op IN ('h2d', 'd2h'), memory, NULL) AS memory,
            bench_bytes_per_s(message_bytes, median_ns) AS bytes_per_s,
            bytes_per_s AS rate
        FROM measured
        WHERE family = 'memcpy'
        UNION ALL BY NAME
        SELECT
            point_id,
            'memory' AS kind,
            bench_memory_bytes_per_s(op, message_bytes, median_ns) AS bytes_per_s,
            bytes_per_s AS rate
        FROM measured
        WHERE family = 'memcpy'
        UNION ALL BY NAME
        SELECT
            point_id,
            'collective' AS kind,
            op, backend, group_size,
            bench_bus_bytes_per_s(op, group_size, message_bytes, median_ns) AS bus_bytes_per_s,
            bus_bytes_per_s AS rate
        FROM measured
        WHERE family = 'collective'
    )

    SELECT
        m.point_id, r.kind, m.device_name, m.is_cpu, m.unit_count, m.thread_count, r.dtype, r.op,
        r.memory, r.backend, r.group_size, r.flop_per_s, r.bytes_per_s, r.bus_bytes_per_s
    FROM rated AS r
    INNER JOIN measured AS m USING (point_id)
    WHERE r.rate > 0 AND isfinite(r.rate)
    QUALIFY
        row_number() OVER (
            PARTITION BY
                r.kind, lower(trim(m.device_name)), m.is_cpu, m.unit_count, m.thread_count, r.dtype,
                r.op, r.memory, r.backend, r.group_size
            ORDER BY
                m.measured_at DESC NULLS LAST, m.run_name DESC NULLS LAST, r.rate DESC, m.point_id
        ) = 1
    ORDER BY
        r.kind, m.device_name, m.unit_count, m.thread_count, r.dtype, r.op, r.memory, r.backend,
        r.group_size
);
