-- How much of the time of each phase are GEMMs, over all devices of the run?
-- The sums of gemm_share. Recomputation is part of the backward phase here, as in the paper's table of phases.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   gemm_share
-- Input:    gemm_share
-- Columns:
--   phase           VARCHAR  as in gemm_share, but for recompute; (all) for all together
--   gemm_kernel_ns  BIGINT   sum of the durations of kernels of class gemm, ns
--   kernel_ns       BIGINT   of all device events of the phase, ns
--   gemm_pct        DOUBLE   gemm_kernel_ns of kernel_ns, 0 to 100; NULL where these take no time
-- Invariant: gemm_kernel_ns <= kernel_ns

SELECT
    if(phase = 'recompute', 'backward', phase) AS phase,
    sum(gemm_kernel_ns)::BIGINT AS gemm_kernel_ns,
    sum(kernel_ns)::BIGINT AS kernel_ns,
    100.0 * sum(gemm_kernel_ns)::BIGINT / nullif(sum(kernel_ns)::BIGINT, 0) AS gemm_pct
FROM gemm_share
GROUP BY if(phase = 'recompute', 'backward', phase)
ORDER BY min(rowid)
