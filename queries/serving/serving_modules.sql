-- Time of a serving engine by kind of work, per device.
-- The rows match the inference engine table of arXiv 2311.03687. Work is assigned in this order: RoPE and RMSNorm by
-- module or kernel name, GEMMs, Triton kernels, and the rest by class. Each nanosecond of the window belongs to one
-- row. Idle time belongs to the phase of the device event that ends it.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR
--   phase         VARCHAR  prefill, mixed, decode, verify, forward, or other
--   task_group    VARCHAR
--   task          VARCHAR  element-wise, RoPE, Triton, GEMM, RMSNorm, attention, other; all-reduce, all-gather, other; memory copy, idle
--   kernel_count BIGINT, kernel_ns BIGINT
--   wall_ns       BIGINT   busy or idle time, ns; overlap counts once; adds up to the window
--   phase_pct     DOUBLE   share of the phase, 0 to 100
--   step_count    BIGINT   number of steps of the phase with device work; NULL without marked steps
--   step_wall_ns  DOUBLE   wall_ns per step, ns
-- View:
--   breakdown  totals=serving_module_totals
-- Invariant: 0 <= wall_ns AND (wall_ns <= kernel_ns OR task = 'idle')
-- Invariant: phase_pct IS NULL OR (0 <= phase_pct AND phase_pct <= 100.0000001)

WITH spent AS (
    SELECT
        trace_id, device, phase, task_group, task,
        sum(kernel_count)::BIGINT AS kernel_count,
        sum(kernel_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM serving_task_time
    GROUP BY trace_id, device, phase, task_group, task
)

SELECT
    w.rank, w.device, s.phase, s.task_group, s.task, s.kernel_count, s.kernel_ns, s.wall_ns,
    100.0 * s.wall_ns / nullif(
        sum(s.wall_ns) OVER (PARTITION BY s.trace_id, s.device, s.phase), 0
    )::BIGINT AS phase_pct,
    n.step_count,
    s.wall_ns / n.step_count AS step_wall_ns
FROM spent AS s
INNER JOIN device_windows AS w ON s.trace_id = w.trace_id AND s.device = w.device
LEFT JOIN serving_phase_steps() AS n
    ON s.trace_id = n.trace_id AND s.device = n.device AND s.phase = n.phase
ORDER BY
    w.rank NULLS LAST,
    w.trace_id, w.device,
    phase_order(s.phase),
    list_position(['computation', 'communication', 'rest'], s.task_group),
    list_position(
        [
            'element-wise', 'RoPE', 'Triton', 'GEMM', 'RMSNorm', 'attention', 'all-reduce',
            'all-gather', 'other', 'memory copy', 'idle'
        ],
        s.task
    )
