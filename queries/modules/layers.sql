-- How much of a step grows with the layers of the model, and how long would it be with all of them?
-- For models that were cut to a few layers. Time in modules of layers is multiplied, time in modules around them
-- (embedding, last norm, head) and of the input stays. Of the rest (optimizer, gradients, communication)
-- the trace does not tell whether it grows: whole_step_ns has it as it is, whole_max_step_ns as if it grew with the
-- layers. No figure stands where nothing is told of a whole time, nor where only some of the layers have such work.
-- Recomputation is part of the backward phase here. Communication and copies are those that belong to a step. Where no
-- module tells layers, table repeated_layer does for forward work, if no attention is outside of its layers.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: attributed_events, device_windows, device_steps, step_ranges, module, repeated_layer, compiled_regions,
--           whole_model, idle_gap, is_in_step, phase_order
-- Params:
--   layers  BIGINT = NULL  layers of the whole model; without it only what ran is told
-- Columns:
--   rank               INTEGER  global rank
--   device             VARCHAR  number of the device, or cpu
--   phase              VARCHAR  as in phases; (all) for all together
--   work               VARCHAR  span: busy and idle time; kernels, compute, gemm, communication, all-reduce, copies: the
--                               sum of their durations
--   layer_count        BIGINT   layers in the trace of the device
--   total_ns           BIGINT   time of such work, ns
--   layer_ns           BIGINT   of it in modules of layers, ns
--   around_ns          BIGINT   of it around the layers, ns
--   untold_ns          BIGINT   of it neither, ns
--   step_ns            DOUBLE   total_ns per step, ns; NULL where the trace marks no steps
--   whole_step_ns      DOUBLE   extrapolated: step_ns of the whole model, at least, ns
--   whole_max_step_ns  DOUBLE   extrapolated: step_ns of the whole model, at most, ns
--   whole_pct          DOUBLE   extrapolated share, at least: of span that of all phases, of compute and gemm the kernels
--                               of the phase, 0 to 100; NULL where a part is not known
--   whole_max_pct      DOUBLE   extrapolated share, at most, 0 to 100
--   reason             VARCHAR  why nothing can be extrapolated; NULL if it can
-- Invariant: layer_ns + around_ns + untold_ns = total_ns
-- Invariant: whole_step_ns IS NULL OR (reason IS NULL AND whole_step_ns <= whole_max_step_ns * 1.0000001)
-- Invariant: whole_pct IS NULL OR (0 <= whole_pct AND whole_pct <= whole_max_pct + 0.0000001)
-- Invariant: whole_max_pct IS NULL OR whole_max_pct <= 100.0000001

WITH compiled AS (
    SELECT DISTINCT trace_id
    FROM compiled_regions
),

-- Steps alone, where some are marked.
stepped AS (
    SELECT
        a.trace_id, a.device, a.step, a.phase, a.module_id, a.row_name, a.kind, a.class, a.dur_ns,
        a.wall_ns,
        0 AS idle_ns,
        r.layer AS repeated_layer, r.place
    FROM attributed_events AS a
    LEFT JOIN repeated_layer AS r
        ON
            a.trace_id = r.trace_id
            AND a.event_id = r.event_id
            AND a.piece = r.piece
            AND r.outer_count = 0
    UNION ALL BY NAME
    SELECT
        trace_id, device, step, phase, module_id, row_name, 'idle' AS kind, 'idle' AS class,
        0 AS dur_ns, 0 AS wall_ns, idle_ns
    FROM idle_gap
),

placed AS (
    SELECT
        d.trace_id, d.device,
        if(d.phase = 'recompute', 'backward', d.phase) AS phase,
        coalesce(m.layer, d.repeated_layer) AS layer,
        if(
            d.place IN ('before', 'after'),
            'around',
            layer_place(
                d.phase, coalesce(m.layer, d.repeated_layer), m.source, d.row_name,
                d.trace_id IN (SELECT trace_id FROM compiled)
            )
        ) AS place,
        d.kind, d.class, d.dur_ns,
        if(d.step IS NULL, 0, d.dur_ns) AS step_dur_ns,
        d.wall_ns + d.idle_ns AS span_ns
    FROM stepped AS d
    LEFT JOIN module AS m USING (trace_id, module_id)
    WHERE is_in_step(d.trace_id, d.step)
),

summed AS (
    SELECT
        trace_id, device, phase, layer, place,
        sum(span_ns) AS span_ns,
        sum(dur_ns) AS kernel_ns,
        coalesce(sum(dur_ns) FILTER (kind = 'compute'), 0) AS compute_ns,
        coalesce(sum(dur_ns) FILTER (is_gemm(class)), 0) AS gemm_ns,
        coalesce(sum(step_dur_ns) FILTER (kind = 'comm'), 0) AS comm_ns,
        coalesce(sum(step_dur_ns) FILTER (collective_of(class) = 'allreduce'), 0) AS allreduce_ns,
        coalesce(sum(step_dur_ns) FILTER (kind = 'memcpy'), 0) AS memcpy_ns
    FROM placed
    GROUP BY trace_id, device, phase, layer, place
),

kept AS (
    SELECT
        trace_id, device, layer, place,
        unnest([phase, phase, phase, phase, '(all)', '(all)', '(all)']) AS phase,
        unnest(
            ['span', 'kernels', 'compute', 'gemm', 'communication', 'all-reduce', 'copies']
        ) AS work,
        unnest(
            [span_ns, kernel_ns, compute_ns, gemm_ns, comm_ns, allreduce_ns, memcpy_ns]
        ) AS time_ns
    FROM summed
),

-- What a share is of: all phases together, or the kernels of the phase. Not known unless every part of it is.
compared AS (
    SELECT
        *,
        CASE
            WHEN work = 'span' AND bool_and(reason IS NULL) OVER spans
                THEN sum(low_ns) OVER spans - low_ns
            WHEN work IN ('gemm', 'compute')
                THEN max(low_ns) FILTER (work = 'kernels') OVER phases - low_ns
        END AS others_low_ns, CASE
            WHEN work = 'span' AND bool_and(reason IS NULL) OVER spans
                THEN sum(high_ns) OVER spans - high_ns
            WHEN work IN ('gemm', 'compute')
                THEN max(high_ns) FILTER (work = 'kernels') OVER phases - high_ns
        END AS others_high_ns
    FROM whole_model_work('kept', $layers)
    WINDOW
        spans AS (PARTITION BY trace_id, device, work),
        phases AS (PARTITION BY trace_id, device, phase)
),

step_time AS (
    SELECT trace_id, device, count(*) AS step_count
    FROM device_steps
    GROUP BY trace_id, device
),

marked AS (
    SELECT trace_id, count(DISTINCT step) AS step_count
    FROM step_ranges
    GROUP BY trace_id
)

SELECT
    w.rank, w.device, c.phase, c.work, c.layer_count, c.total_ns, c.layer_ns, c.around_ns,
    c.untold_ns,
    c.total_ns / if(c.phase = '(all)', t.step_count, m.step_count) AS step_ns,
    c.low_ns / if(c.phase = '(all)', t.step_count, m.step_count) AS whole_step_ns,
    c.high_ns / if(c.phase = '(all)', t.step_count, m.step_count) AS whole_max_step_ns,
    whole_pct(c.low_ns, c.others_high_ns) AS whole_pct,
    whole_pct(c.high_ns, c.others_low_ns) AS whole_max_pct,
    c.reason
FROM compared AS c
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN step_time AS t USING (trace_id, device)
LEFT JOIN marked AS m USING (trace_id)
ORDER BY
    w.rank NULLS LAST,
    w.trace_id, w.device,
    phase_order(c.phase) NULLS LAST,
    list_position(
        ['span', 'kernels', 'compute', 'gemm', 'communication', 'all-reduce', 'copies'], c.work
    )
