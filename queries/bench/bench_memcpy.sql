-- Copy benchmarks (`tracekit bench memcpy`) with time and bandwidth.
-- Reproduces Figure 12 of arXiv 2311.03687. A copy within one memory reads and writes it, so its traffic is twice its
-- bytes. That traffic is compared with the memory bandwidth in the data sheet.
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   best  BOOLEAN = FALSE  only the fastest point of each direction and kind of memory
-- Columns:
--   run                  VARCHAR
--   device               VARCHAR  cpu or cuda:0
--   device_name          VARCHAR
--   op                   VARCHAR  h2d, d2h, d2d, or h2h (host to host)
--   memory               VARCHAR  host memory: pinned or pageable
--   message_bytes        BIGINT   bytes copied
--   median_ns            DOUBLE
--   low_ns               DOUBLE   lower bound of the confidence interval of the median, ns; NULL for few samples
--   high_ns              DOUBLE   upper bound of the confidence interval of the median, ns
--   confidence_pct DOUBLE, interval_pct DOUBLE, below_pct DOUBLE, above_pct DOUBLE, repeat_count BIGINT
--   bytes_per_s          DOUBLE   copy rate, bytes/s
--   low_bytes_per_s      DOUBLE   copy rate at high_ns, bytes/s
--   high_bytes_per_s     DOUBLE   copy rate at low_ns, bytes/s
--   traffic_bytes_per_s  DOUBLE   bytes read and written per second by a copy within one memory; else NULL
--   peak_bytes_per_s     DOUBLE   memory bandwidth in the data sheet, bytes/s
--   peak_pct             DOUBLE   traffic as a share of the peak, percent; above 100 if caches hold the copy
--   is_best              BOOLEAN  fastest point of its run, device, direction, and kind of memory
--   is_smallest          BOOLEAN  smallest copy with a time; its time is the latency
--   timer VARCHAR, thread_count INTEGER
--   clock_hz             BIGINT   clock right after the measurement (NVML)
--   memory_clock_hz      BIGINT   memory clock right after the measurement
--   reason               VARCHAR  why there is no time
-- Invariant: low_ns IS NULL OR (low_ns <= median_ns AND median_ns <= high_ns)
-- Invariant: traffic_bytes_per_s IS NULL OR traffic_bytes_per_s = 2 * bytes_per_s
-- Invariant: reason IS NOT NULL OR bytes_per_s IS NOT NULL

WITH memory AS (
    SELECT DISTINCT device_name, unit_count, memory_bytes_per_s
    FROM named_peak
),

rated AS (
    SELECT
        p.*,
        bench_bytes_per_s(p.message_bytes, p.median_ns) AS bytes_per_s,
        if(p.op = 'd2d', m.memory_bytes_per_s, NULL) AS peak_bytes_per_s,
        coalesce(p.missing, if(
            p.message_bytes IS NULL, 'the benchmark record has no size', NULL
        )) AS why
    FROM bench_points('memcpy') AS p
    LEFT JOIN memory AS m
        ON
            p.device_name = m.device_name
            AND p.unit_count IS NOT DISTINCT FROM m.unit_count
            AND p.device <> 'cpu'
),

ranked AS (
    SELECT
        *,
        if(op IN ('d2d', 'h2h'), 2 * bytes_per_s, NULL) AS traffic_bytes_per_s,
        bytes_per_s IS NOT NULL
        AND row_number() OVER (
            PARTITION BY run_id, device, op, memory ORDER BY bytes_per_s DESC NULLS LAST, bench_id
        ) = 1 AS is_best,
        median_ns IS NOT NULL
        AND row_number() OVER (
            PARTITION BY run_id, device, op, memory
            ORDER BY median_ns IS NULL, message_bytes, bench_id
        ) = 1 AS is_smallest
    FROM rated
)

SELECT
    run, device, device_name, op, memory, message_bytes, median_ns, low_ns, high_ns, confidence_pct,
    interval_pct, below_pct, above_pct, repeat_count, bytes_per_s,
    bench_bytes_per_s(message_bytes, high_ns) AS low_bytes_per_s,
    bench_bytes_per_s(message_bytes, low_ns) AS high_bytes_per_s,
    traffic_bytes_per_s, peak_bytes_per_s,
    100 * traffic_bytes_per_s / peak_bytes_per_s AS peak_pct,
    is_best, is_smallest, timer, thread_count, clock_hz, memory_clock_hz, why AS reason
FROM ranked
WHERE is_best OR NOT $best
ORDER BY run, run_id, bench_id
