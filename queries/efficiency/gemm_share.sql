-- GEMM time as a share of each phase, per device.
-- All GEMM kernels count, regardless of the op that launched them. The last row of a device covers all phases.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR
--   phase              VARCHAR  phase, or (all)
--   gemm_count         BIGINT   number of GEMM kernels
--   gemm_kernel_ns     BIGINT   sum of durations of GEMM kernels, ns
--   compute_kernel_ns  BIGINT   sum of durations of compute, ns
--   kernel_ns          BIGINT   sum of durations of all device events, ns
--   gemm_pct           DOUBLE   GEMM share of kernel_ns, 0 to 100
--   gemm_compute_pct   DOUBLE   GEMM share of compute_kernel_ns, 0 to 100
--   gemm_wall_ns       BIGINT   busy time of GEMM kernels, ns; overlap counts once
--   wall_ns            BIGINT   busy time of the phase, ns; overlap counts once
--   gemm_wall_pct      DOUBLE   GEMM share of wall_ns, 0 to 100
-- Invariant: gemm_kernel_ns <= compute_kernel_ns AND compute_kernel_ns <= kernel_ns
-- Invariant: gemm_wall_ns <= wall_ns

WITH phase_time AS (
    SELECT
        e.trace_id, e.device,
        grouping(e.phase) AS is_all,
        e.phase,
        count(*) FILTER (is_gemm(e.class) AND e.piece = 0) AS gemm_count,
        coalesce(sum(e.dur_ns) FILTER (is_gemm(e.class)), 0)::BIGINT AS gemm_kernel_ns,
        coalesce(sum(e.dur_ns) FILTER (e.kind = 'compute'), 0)::BIGINT AS compute_kernel_ns,
        sum(e.dur_ns)::BIGINT AS kernel_ns,
        coalesce(sum(e.wall_ns) FILTER (is_gemm(e.class)), 0)::BIGINT AS gemm_wall_ns,
        sum(e.wall_ns)::BIGINT AS wall_ns
    FROM attributed_events AS e
    GROUP BY GROUPING SETS ((e.trace_id, e.device, e.phase), (e.trace_id, e.device))
)

SELECT
    w.rank, w.device,
    if(p.is_all = 1, '(all)', p.phase) AS phase,
    p.gemm_count, p.gemm_kernel_ns, p.compute_kernel_ns, p.kernel_ns,
    100.0 * p.gemm_kernel_ns / nullif(p.kernel_ns, 0) AS gemm_pct,
    100.0 * p.gemm_kernel_ns / nullif(p.compute_kernel_ns, 0) AS gemm_compute_pct,
    p.gemm_wall_ns, p.wall_ns,
    100.0 * p.gemm_wall_ns / nullif(p.wall_ns, 0) AS gemm_wall_pct
FROM phase_time AS p
INNER JOIN device_windows AS w USING (trace_id, device)
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, p.is_all, p.kernel_ns DESC, p.phase
