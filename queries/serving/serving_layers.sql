-- How much of a serving engine's step grows with the layers of the model, and how long would it be with all of them?
-- The kinds of work of serving_modules and the sections of serving_timeline, per step; what grows is told as in layers.
-- A share is of the whole phase, busy and idle, of the whole model. For models that were cut to a few layers.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   serving_modules
-- Requires: device_windows, module, compiled_regions, serving_task_time, serving_section_work, serving_phase_steps,
--           whole_model, phase_order
-- Params:
--   layers  BIGINT = NULL  layers of the whole model; without it only what ran is told
-- Columns:
--   rank               INTEGER  global rank
--   device             VARCHAR  number of the device, or cpu
--   phase              VARCHAR  prefill, mixed, decode, verify, forward or other, as in serving_modules
--   task_group         VARCHAR  computation, communication or rest, as in serving_modules; timeline for sections
--   task               VARCHAR  as in serving_modules, (all) for the group; a section, transformer: attention and ffn
--   layer_count        BIGINT   layers in the trace of the device
--   total_ns           BIGINT   time of such work, ns
--   layer_ns           BIGINT   of it in modules of layers, ns
--   around_ns          BIGINT   of it around the layers, ns
--   untold_ns          BIGINT   of it neither, ns
--   step_ns            DOUBLE   total_ns per step, ns; NULL where no range marks steps of the phase
--   whole_step_ns      DOUBLE   extrapolated: step_ns of the whole model, at least, ns
--   whole_max_step_ns  DOUBLE   extrapolated: step_ns of the whole model, at most, ns
--   whole_pct          DOUBLE   extrapolated share of the phase, at least, 0 to 100; NULL where a part is not known
--   whole_max_pct      DOUBLE   extrapolated share of the phase, at most, 0 to 100
--   reason             VARCHAR  why nothing can be extrapolated; NULL if it can
-- Invariant: layer_ns + around_ns + untold_ns = total_ns
-- Invariant: whole_step_ns IS NULL OR (reason IS NULL AND whole_step_ns <= whole_max_step_ns * 1.0000001)
-- Invariant: whole_pct IS NULL OR (0 <= whole_pct AND whole_pct <= whole_max_pct + 0.0000001)
-- Invariant: whole_max_pct IS NULL OR whole_max_pct <= 100.0000001

WITH compiled AS (
    SELECT DISTINCT trace_id
    FROM compiled_regions
),

work AS (
    SELECT trace_id, device, phase, task_group, task, module_id, row_name, wall_ns AS time_ns
    FROM serving_task_time
    UNION ALL
    SELECT
        trace_id, device, phase,
        'timeline' AS task_group,
        section AS task, module_id, row_name,
        wall_ns + idle_ns AS time_ns
    FROM serving_section_work
),

summed AS (
    SELECT
        w.trace_id, w.device, w.phase, w.task_group, w.task, m.layer,
        layer_place(
            w.phase, m.layer, m.source, w.row_name,
            w.trace_id IN (SELECT trace_id FROM compiled)
        ) AS place,
        sum(w.time_ns) AS time_ns
    FROM work AS w
    LEFT JOIN module AS m ON w.trace_id = m.trace_id AND w.module_id = m.module_id
    GROUP BY ALL
),

-- What a share is of, all work of the phase, is a row without a task.
kept AS (
    SELECT * FROM summed
    UNION ALL
    SELECT * REPLACE ('(all)' AS task)
    FROM summed
    WHERE task_group <> 'timeline'
    UNION ALL
    SELECT * REPLACE ('transformer' AS task)
    FROM summed
    WHERE task_group = 'timeline' AND task IN ('attention', 'ffn')
    UNION ALL
    SELECT * REPLACE (if(task_group = 'timeline', task_group, 'work') AS task_group, NULL AS task)
    FROM summed
),

named AS (
    SELECT * EXCLUDE (task_group, task), {task_group: task_group, task: task} AS work
    FROM kept
),

compared AS (
    SELECT
        *,
        max(low_ns) FILTER (work.task IS NULL) OVER phases - low_ns AS others_low_ns,
        max(high_ns) FILTER (work.task IS NULL) OVER phases - high_ns AS others_high_ns
    FROM whole_model_work('named', $layers)
    WINDOW phases AS (PARTITION BY trace_id, device, phase, work.task_group = 'timeline')
)

SELECT
    w.rank, w.device, c.phase, c.work.task_group, c.work.task, c.layer_count, c.total_ns,
    c.layer_ns, c.around_ns, c.untold_ns,
    c.total_ns / n.step_count AS step_ns,
    c.low_ns / n.step_count AS whole_step_ns,
    c.high_ns / n.step_count AS whole_max_step_ns,
    whole_pct(c.low_ns, c.others_high_ns) AS whole_pct,
    whole_pct(c.high_ns, c.others_low_ns) AS whole_max_pct,
    c.reason
FROM compared AS c
INNER JOIN device_windows AS w ON c.trace_id = w.trace_id AND c.device = w.device
LEFT JOIN serving_phase_steps() AS n
    ON c.trace_id = n.trace_id AND c.device = n.device AND c.phase = n.phase
WHERE c.work.task IS NOT NULL
ORDER BY
    w.rank NULLS LAST,
    w.trace_id, w.device,
    phase_order(c.phase),
    list_position(['computation', 'communication', 'rest', 'timeline'], c.work.task_group),
    list_position(
        [
            '(all)', 'element-wise', 'RoPE', 'Triton', 'GEMM', 'RMSNorm', 'attention',
            'all-reduce', 'all-gather', 'memory copy', 'idle',
            'before transformer', 'transformer', 'ffn', 'after transformer', 'other'
        ],
        c.work.task
    )
