-- Matrix multiplications by size and type, with their share of peak, over all devices.
-- Matrix multiplications of unknown size are excluded.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   gemms per total
-- Columns:
--   m BIGINT, n BIGINT, k BIGINT, batch BIGINT, dtype VARCHAR, call_count BIGINT, kernel_ns BIGINT
--   mean_ns   DOUBLE  time per call, ns
--   flops     BIGINT  floating-point operations of all calls
--   flop_per_s  DOUBLE
--   peak_pct  DOUBLE  share of the peak rate of the devices, 0 to 100; NULL if a peak is unknown
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
