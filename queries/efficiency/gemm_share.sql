-- Which share of each phase do matrix products take?
-- Kernels of class gemm, whatever launched them; the last row of a device is all phases together.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank               INTEGER  global rank
--   device             VARCHAR  number of the device, or cpu
--   phase              VARCHAR  phase; (all) for all together
--   gemm_count         BIGINT   kernels of class gemm
--   gemm_kernel_ns     BIGINT   sum of their durations, ns
--   compute_kernel_ns  BIGINT   of all compute of the phase, ns
--   kernel_ns          BIGINT   of all device events of the phase, ns
--   gemm_pct           DOUBLE   gemm_kernel_ns of kernel_ns, 0 to 100
--   gemm_compute_pct   DOUBLE   gemm_kernel_ns of compute_kernel_ns, 0 to 100
--   gemm_wall_ns       BIGINT   busy time of the device that belongs to them, ns
--   wall_ns            BIGINT   busy time of the device that belongs to the phase, ns
--   gemm_wall_pct      DOUBLE   gemm_wall_ns of wall_ns, 0 to 100
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
