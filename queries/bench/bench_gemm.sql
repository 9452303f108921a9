-- How fast does this machine multiply matrices, by shape and type, and how close is that to its data sheet?
-- The points of tracekit bench gemm, as in the paper's Figure 11 and Table XII. Operations are 2 M N K, times the
-- products of a call; the rate is that of the median time, its interval that of the median's. The peak is the dense
-- rate of the type by the data sheet of the device (queries/rules/devices.toml).
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   best  BOOLEAN = FALSE  only the fastest point of each op and type
-- Columns:
--   run              VARCHAR  name of the run's folder
--   device           VARCHAR  cpu or cuda:0
--   device_name      VARCHAR  product
--   op               VARCHAR  mm; grouped_mm: several products in one call; scaled_mm: with scales, of 8-bit floats
--   series           VARCHAR  curve that the point belongs to
--   dtype            VARCHAR  type of the operands
--   m                BIGINT   rows of the product, of one of a group
--   n                BIGINT   its columns
--   k                BIGINT   length of the sums
--   batch            BIGINT   products in one call
--   median_ns        DOUBLE   median time of one call, ns
--   low_ns           DOUBLE   lower end of the median's confidence interval, ns; NULL for few samples
--   high_ns          DOUBLE   its upper end, ns
--   confidence_pct   DOUBLE   least confidence of the interval, 0 to 100
--   interval_pct     DOUBLE   width of the interval, of the median
--   below_pct        DOUBLE   median_ns - low_ns, of the median
--   above_pct        DOUBLE   high_ns - median_ns, of the median
--   repeat_count     BIGINT   samples
--   flops            BIGINT   operations of one call
--   flop_per_s       DOUBLE   flops / median_ns, operations/s
--   low_flop_per_s   DOUBLE   flops / high_ns
--   high_flop_per_s  DOUBLE   flops / low_ns
--   peak_flop_per_s  DOUBLE   dense peak of the type by the data sheet, operations/s
--   peak_pct         DOUBLE   flop_per_s of it, 0 to 100
--   is_best          BOOLEAN  the fastest point of its run, device, op and type
--   timer            VARCHAR  cuda_event or wall_clock
--   thread_count     INTEGER  host threads of arithmetic
--   clock_hz         BIGINT   clock right after, as NVML tells
--   power_w          DOUBLE   power right after, W
--   temperature_c    DOUBLE   temperature right after, degrees Celsius
--   reason           VARCHAR  why there is no time or no peak; NULL if there are both
-- Invariant: flops IS NULL OR flops = 2::HUGEINT * m * n * k * batch
-- Invariant: low_ns IS NULL OR (low_ns <= median_ns AND median_ns <= high_ns)
-- Invariant: low_flop_per_s IS NULL OR (low_flop_per_s <= flop_per_s AND flop_per_s <= high_flop_per_s)
-- Invariant: reason IS NOT NULL OR peak_pct IS NOT NULL

WITH point AS (
    SELECT
        *,
        -- Sizes are below 2^31 each, their product need not be below 2^63.
        try_cast(2::HUGEINT * m::HUGEINT * n * k * coalesce(batch, 1) AS BIGINT) AS flops
    FROM bench_points('gemm')
),

rated AS (
    SELECT
        p.*,
        bench_flop_per_s(p.m, p.n, p.k, p.batch, p.median_ns) AS flop_per_s,
        d.flop_per_s AS peak_flop_per_s, CASE
            WHEN p.missing IS NOT NULL THEN p.missing
            WHEN p.flops IS NULL THEN 'the line has no shape'
            WHEN p.device = 'cpu' THEN 'the data sheet of a CPU tells no peak'
            WHEN d.flop_per_s IS NOT NULL THEN NULL
            WHEN EXISTS (
                SELECT 1 FROM named_peak AS e
                WHERE
                    e.device_name = p.device_name
                    AND e.unit_count IS NOT DISTINCT FROM p.unit_count
            ) THEN 'the device has no peak for this type'
            ELSE 'the peak of this device is not known'
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
