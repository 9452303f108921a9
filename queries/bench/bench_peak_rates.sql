-- Best measured rate of each kind of benchmark, per device: bench_peak_rates('relation').
-- Drivers, clocks, and power limits change, so the newest run counts, even if an older run was faster.
--
-- Kind:     function
-- Access:   private
-- Params:
--   relation  VARCHAR  measured points: point_id, the columns of benchmarks.jsonl, measured_at, and run_name
-- Columns:
--   point_id BIGINT, kind VARCHAR, device_name VARCHAR, is_cpu BOOLEAN
--   unit_count    INTEGER  number of SMs or compute units; NULL if unknown
--   thread_count  INTEGER  host threads of the measurement; NULL if irrelevant
--   dtype VARCHAR, op VARCHAR, memory VARCHAR, backend VARCHAR, group_size INTEGER, flop_per_s DOUBLE
--   bytes_per_s DOUBLE, bus_bytes_per_s DOUBLE

CREATE OR REPLACE MACRO bench_peak_rates(relation) AS TABLE (
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
