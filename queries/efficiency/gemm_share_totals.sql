-- GEMM share of the kernel time of each phase, over all devices.
-- Recompute counts as backward, as in the tables of arXiv 2311.03687.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   gemm_share per total
-- Input:    gemm_share
-- Columns:
--   phase           VARCHAR  phase, or (all); backward includes recompute
--   gemm_kernel_ns  BIGINT   sum of durations of GEMM kernels, ns
--   kernel_ns       BIGINT   sum of durations of all device events, ns
--   gemm_pct        DOUBLE   GEMM share of kernel_ns, 0 to 100; NULL if kernel_ns is 0
-- Invariant: gemm_kernel_ns <= kernel_ns

SELECT
    if(phase = 'recompute', 'backward', phase) AS phase,
    sum(gemm_kernel_ns)::BIGINT AS gemm_kernel_ns,
    sum(kernel_ns)::BIGINT AS kernel_ns,
    100.0 * sum(gemm_kernel_ns)::BIGINT / nullif(sum(kernel_ns)::BIGINT, 0) AS gemm_pct
FROM gemm_share
GROUP BY if(phase = 'recompute', 'backward', phase)
ORDER BY min(rowid)
