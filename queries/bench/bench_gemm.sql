-- GEMM benchmarks (`tracekit bench gemm`) by shape and type.
-- Reproduces Figure 11 and Table XII of arXiv 2311.03687. Rates are computed from the median time and its confidence
-- interval. The peak is the dense rate in the data sheet (queries/rules/devices.toml).
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   best  BOOLEAN = FALSE  only the fastest point of each op and type
-- Columns:
--   run              VARCHAR
--   device           VARCHAR  cpu or cuda:0
--   device_name      VARCHAR
--   op               VARCHAR  mm; grouped_mm: several GEMMs per call; scaled_mm: 8-bit floats with scales
--   series           VARCHAR  curve that the point belongs to
--   dtype            VARCHAR
--   m                BIGINT   rows of the output; for grouped_mm, of one GEMM
--   n BIGINT, k BIGINT, batch BIGINT, median_ns DOUBLE
--   low_ns           DOUBLE   lower bound of the confidence interval of the median, ns; NULL for few samples
--   high_ns          DOUBLE   upper bound of the confidence interval of the median, ns
--   confidence_pct DOUBLE, interval_pct DOUBLE, below_pct DOUBLE, above_pct DOUBLE, repeat_count BIGINT
--   flops            BIGINT   floating-point operations per call
--   flop_per_s       DOUBLE
--   low_flop_per_s   DOUBLE   rate at high_ns, FLOP/s
--   high_flop_per_s  DOUBLE   rate at low_ns, FLOP/s
--   peak_flop_per_s  DOUBLE   dense peak of the type in the data sheet, FLOP/s
--   peak_pct         DOUBLE
--   is_best          BOOLEAN  fastest point of its run, device, op, and type
--   timer VARCHAR, thread_count INTEGER
--   clock_hz         BIGINT   clock right after the measurement (NVML)
--   power_w          DOUBLE   power right after the measurement, W
--   temperature_c    DOUBLE   temperature right after the measurement, °C
--   reason           VARCHAR  why there is no time or no peak; else NULL
-- Invariant: flops IS NULL OR flops = 2::HUGEINT * m * n * k * batch
-- Invariant: low_ns IS NULL OR (low_ns <= median_ns AND median_ns <= high_ns)
-- Invariant: low_flop_per_s IS NULL OR (low_flop_per_s <= flop_per_s AND flop_per_s <= high_flop_per_s)
-- Invariant: reason IS NOT NULL OR peak_pct IS NOT NULL

WITH point AS (
    SELECT
        *,
        -- Sizes are below 2^31 each, but their product may exceed 2^63.
        try_cast(2::HUGEINT * m::HUGEINT * n * k * coalesce(batch, 1) AS BIGINT) AS flops
    FROM bench_points('gemm')
),

rated AS (
    SELECT
        p.*,
        bench_flop_per_s(p.m, p.n, p.k, p.batch, p.median_ns) AS flop_per_s,
        d.flop_per_s AS peak_flop_per_s, CASE
            WHEN p.missing IS NOT NULL THEN p.missing
            WHEN p.flops IS NULL THEN 'the benchmark record has no shape'
            WHEN p.device = 'cpu' THEN 'the data sheet of a CPU has no peak'
            WHEN d.flop_per_s IS NOT NULL THEN NULL
            WHEN EXISTS (
                SELECT 1 FROM named_peak AS e
                WHERE
                    e.device_name = p.device_name
                    AND e.unit_count IS NOT DISTINCT FROM p.unit_count
            ) THEN 'the device has no peak for this type'
            ELSE 'the peak of this device is unknown'
        END AS why
    FROM point AS p
    LEFT JOIN named_peak AS d
        ON
            p.device_name = d.device_name
            AND p.unit_count IS NOT DISTINCT FROM d.unit_count
            AND p.dtype = d.dtype
            AND p.device <> 'cpu'
),

ranked AS (
    SELECT
        *,
        flop_per_s IS NOT NULL
        AND row_number() OVER (
            PARTITION BY run_id, device, op, dtype ORDER BY flop_per_s DESC NULLS LAST, bench_id
        ) = 1 AS is_best
    FROM rated
)

SELECT
    run, device, device_name, op, series, dtype, m, n, k,
    coalesce(batch, 1) AS batch,
    median_ns, low_ns, high_ns, confidence_pct, interval_pct, below_pct, above_pct, repeat_count,
    flops, flop_per_s,
    bench_flop_per_s(m, n, k, batch, high_ns) AS low_flop_per_s,
    bench_flop_per_s(m, n, k, batch, low_ns) AS high_flop_per_s,
    peak_flop_per_s,
    100 * flop_per_s / peak_flop_per_s AS peak_pct,
    is_best, timer, thread_count, clock_hz, power_w, temperature_c, why AS reason
FROM ranked
WHERE is_best OR NOT $best
ORDER BY run, run_id, bench_id
