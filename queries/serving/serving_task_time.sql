-- Device time of a serving engine by kind of work; rows are device event pieces and idle gaps.
-- Idle gaps belong to the phase and module of the device event that ends them.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER, device VARCHAR, phase VARCHAR, task_group VARCHAR
--   task          VARCHAR  as in serving_modules
--   module_id INTEGER, row_name VARCHAR
--   kernel_count  BIGINT   1 for the first piece of a device event, 0 for other pieces and idle time
--   kernel_ns BIGINT, wall_ns BIGINT

WITH task_work AS MATERIALIZED (
    SELECT
        d.trace_id, d.device, d.piece, d.module_id, d.row_name, d.dur_ns, d.wall_ns, CASE
            WHEN d.phase IN ('prefill', 'mixed', 'decode', 'verify', 'forward') THEN d.phase
            ELSE 'other'
        END AS phase,
        gap_before_ns(
            (d.trace_id, d.device), d.ts_ns, d.end_ns, (d.event_id, d.piece)
        ) AS gap_ns,
        CASE d.kind
            WHEN 'comm' THEN 'communication' WHEN 'memcpy' THEN 'rest' ELSE 'computation'
        END AS task_group, CASE
            WHEN d.kind = 'memcpy' THEN 'memory copy'
            WHEN d.kind = 'comm' THEN serving_task_of(d.class)
            WHEN
                serving_task_of(d.class) = 'RoPE' OR x.module_part = 'rope' OR m.role = 'RoPE'
                THEN 'RoPE'
            WHEN serving_task_of(d.class) = 'RMSNorm' OR m.role = 'RMSNorm' THEN 'RMSNorm'
            WHEN is_triton_kernel(d.class, d.name) THEN 'Triton'
            ELSE serving_task_of(d.class)
        END AS task
    FROM attributed_events AS d
    LEFT JOIN launch_context AS x ON d.trace_id = x.trace_id AND d.launch_id = x.event_id
    LEFT JOIN module_roles AS m
        ON d.trace_id = m.trace_id AND d.module_id = m.module_id
)

SELECT
    trace_id, device, phase, task_group, task, module_id, row_name,
    if(piece = 0, 1, 0)::BIGINT AS kernel_count,
    dur_ns AS kernel_ns, wall_ns
FROM task_work
UNION ALL
SELECT
    trace_id, device, phase,
    'rest' AS task_group,
    'idle' AS task,
    module_id, row_name,
    0::BIGINT AS kernel_count,
    0::BIGINT AS kernel_ns,
    gap_ns AS wall_ns
FROM task_work
WHERE gap_ns > 0
