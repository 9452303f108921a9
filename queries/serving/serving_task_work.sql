-- Which kind of work of a serving engine is each device event: GEMM, RoPE, a norm, Triton, an all-reduce, …?
-- serving_task_work('module') is a relation.
--
-- Kind:     macro
-- Access:   private
-- Requires: attributed_events, surroundings, module_roles, triton_kernel, interval_neighbours
-- Params:
--   modules  VARCHAR  name of the relation of modules: table module
-- Columns:
--   trace_id    INTEGER  the trace
--   device      VARCHAR  number of the device, or cpu
--   piece       BIGINT   number of the piece of a CPU op, from 0; 0 for work of accelerators
--   module_id   INTEGER  module, as in table module; NULL where none
--   row_name    VARCHAR  row of modules where there is no module
--   dur_ns      BIGINT   duration, ns
--   wall_ns     BIGINT   busy time that is its own, ns
--   phase       VARCHAR  prefill, mixed, decode, forward or other, as in phases
--   gap_ns      BIGINT   idle time before it, ns; negative or NULL for none
--   task_group  VARCHAR  computation, communication or rest
--   task        VARCHAR  as in serving_modules, but for idle

CREATE OR REPLACE MACRO serving_task_work(modules) AS TABLE (
    SELECT
        d.trace_id,
        d.device,
        d.piece,
        d.module_id,
        d.row_name,
        d.dur_ns,
        d.wall_ns,
        CASE
            WHEN
                d.phase IN ('prefill', 'mixed', 'decode', 'forward')
                THEN d.phase
            ELSE 'other'
        END AS phase,
        gap_before_ns(
            (d.trace_id, d.device), d.ts_ns, d.end_ns, (d.event_id, d.piece)
        ) AS gap_ns,
        CASE d.kind
            WHEN 'comm' THEN 'communication' WHEN 'memcpy' THEN 'rest' ELSE 'computation'
        END AS task_group,
        CASE
            WHEN d.kind = 'memcpy' THEN 'memory copy'
            WHEN d.class = 'comm_allreduce' THEN 'all-reduce'
            WHEN d.class = 'comm_allgather' THEN 'all-gather'
            WHEN d.kind = 'comm' THEN 'other'
            WHEN d.class = 'rope' OR x.module_part = 'rope' OR m.role = 'RoPE' THEN 'RoPE'
            WHEN d.class = 'norm' OR m.role = 'RMSNorm' THEN 'RMSNorm'
            WHEN d.class = 'gemm' THEN 'GEMM'
            WHEN is_triton_kernel(d.class, d.name) THEN 'Triton'
            WHEN d.class = 'attention' THEN 'attention'
            WHEN d.class = 'elementwise' THEN 'element-wise'
            ELSE 'other'
        END AS task
    FROM attributed_events AS d
    LEFT JOIN surroundings AS x ON d.trace_id = x.trace_id AND d.launch_id = x.event_id
    LEFT JOIN module_roles(modules) AS m ON d.trace_id = m.trace_id AND d.module_id = m.module_id
);
