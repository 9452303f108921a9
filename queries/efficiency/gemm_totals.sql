-- Which matrix products ran on all devices of the run, of which size, and how close to the peak?
-- The sums of gemms over all devices and ops, for each size and type; what has no size is left out.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   gemms
-- Columns:
--   m           BIGINT  rows of the product
--   n           BIGINT  its columns
--   k           BIGINT  length of the sums
--   batch       BIGINT  products in one call
--   dtype       VARCHAR  type of the operands
--   call_count  BIGINT  calls
--   kernel_ns   BIGINT  sum of the durations of their kernels, ns
--   mean_ns     DOUBLE  kernel_ns per call, ns
--   flops       BIGINT  operations of all calls
--   flop_per_s  DOUBLE  flops / kernel_ns, operations/s
--   peak_pct    DOUBLE  flops of those that the peaks of their devices allow in their time, 0 to 100; NULL if a peak is
--                       not known
-- Keep:     m, n, k, batch, dtype, call_count, mean_ns, flop_per_s, peak_pct, kernel_ns
-- Invariant: flops = 2 * m * n * k * batch * call_count

SELECT
    m, n, k, batch, dtype,
    sum(call_count)::BIGINT AS call_count,
    sum(kernel_ns)::BIGINT AS kernel_ns,
    sum(kernel_ns)::BIGINT / nullif(sum(call_count)::BIGINT, 0) AS mean_ns,
    sum(flops)::BIGINT AS flops,
    1e9 * sum(flops)::BIGINT / nullif(sum(kernel_ns)::BIGINT, 0) AS flop_per_s,
    CASE
        WHEN bool_and(peak_pct IS NOT NULL OR kernel_ns = 0)
            THEN 100.0 * (1e9 * sum(flops)::BIGINT) / nullif(sum(kernel_ns * peak_flop_per_s), 0)
    END AS peak_pct
FROM gemms(p_limit := 0)
WHERE flops IS NOT NULL
GROUP BY m, n, k, batch, dtype
ORDER BY sum(kernel_ns) DESC, m, n, k, batch, dtype
