-- How much of each part of a decoder grows with its layers, and how long would it take with all of them?
-- The parts of roles, per step; what grows is told as in layers. A share is of the whole phase, busy and idle, of the
-- whole model. For models that were cut to a few layers.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   roles
-- Requires: device_windows, module, step_ranges, compiled_regions, role_work, idle_gap, is_in_step, whole_model,
--           phase_order, role_order
-- Params:
--   layers  BIGINT = NULL  layers of the whole model; without it only what ran is told
-- Columns:
--   rank               INTEGER  global rank
--   device             VARCHAR  number of the device, or cpu
--   phase              VARCHAR  as in phases
--   role               VARCHAR  the part, as in roles
--   layer_count        BIGINT   layers in the trace of the device
--   wall_ns            BIGINT   busy time that is its own, ns
--   layer_ns           BIGINT   of it in modules of layers, ns
--   around_ns          BIGINT   of it around the layers, ns
--   untold_ns          BIGINT   of it neither, ns
--   step_ns            DOUBLE   wall_ns per step, ns; NULL where the trace marks no steps
--   whole_step_ns      DOUBLE   extrapolated: step_ns of the whole model, at least, ns
--   whole_max_step_ns  DOUBLE   extrapolated: step_ns of the whole model, at most, ns
--   whole_pct          DOUBLE   extrapolated share of the phase, at least, 0 to 100; NULL where a part is not known
--   whole_max_pct      DOUBLE   extrapolated share of the phase, at most, 0 to 100
--   reason             VARCHAR  why nothing can be extrapolated; NULL if it can
-- Invariant: layer_ns + around_ns + untold_ns = wall_ns
-- Invariant: whole_step_ns IS NULL OR (reason IS NULL AND whole_step_ns <= whole_max_step_ns * 1.0000001)
-- Invariant: whole_pct IS NULL OR (0 <= whole_pct AND whole_pct <= whole_max_pct + 0.0000001)
-- Invariant: whole_max_pct IS NULL OR whole_max_pct <= 100.0000001

WITH compiled AS (
    SELECT DISTINCT trace_id
    FROM compiled_regions
),

-- Steps alone, where some are marked.
stepped AS (
    SELECT trace_id, device, phase, module_id, row_name, role, wall_ns, 0 AS idle_ns
    FROM role_work
    WHERE is_in_step(trace_id, step)
    UNION ALL BY NAME
    SELECT trace_id, device, phase, module_id, row_name, 0 AS wall_ns, idle_ns
    FROM idle_gap
    WHERE is_in_step(trace_id, step)
),

summed AS (
    SELECT
        d.trace_id, d.device, d.phase, d.role, m.layer,
        layer_place(
            d.phase, m.layer, m.source, d.row_name,
            d.trace_id IN (SELECT trace_id FROM compiled)
        ) AS place,
        sum(d.wall_ns) AS wall_ns,
        sum(d.wall_ns + d.idle_ns) AS span_ns
    FROM stepped AS d
    LEFT JOIN module AS m USING (trace_id, module_id)
    GROUP BY d.trace_id, d.device, d.phase, d.role, m.layer, place
),

-- The whole phase is the row without a role: its time is busy and idle.
kept AS (
    SELECT trace_id, device, phase, layer, place, role AS work, wall_ns AS time_ns
    FROM summed
    WHERE role IS NOT NULL
    UNION ALL
    SELECT trace_id, device, phase, layer, place, NULL AS work, span_ns AS time_ns
    FROM summed
),

compared AS (
    SELECT
        *,
        max(low_ns) FILTER (work IS NULL) OVER phases - low_ns AS others_low_ns,
        max(high_ns) FILTER (work IS NULL) OVER phases - high_ns AS others_high_ns
    FROM whole_model_work('kept', $layers)
    WINDOW phases AS (PARTITION BY trace_id, device, phase)
),

marked AS (
    SELECT trace_id, count(DISTINCT step) AS step_count
    FROM step_ranges
    GROUP BY trace_id
)

SELECT
    w.rank, w.device, c.phase, c.work AS role, c.layer_count, c.total_ns AS wall_ns, c.layer_ns,
    c.around_ns, c.untold_ns,
    c.total_ns / m.step_count AS step_ns,
    c.low_ns / m.step_count AS whole_step_ns,
    c.high_ns / m.step_count AS whole_max_step_ns,
    whole_pct(c.low_ns, c.others_high_ns) AS whole_pct,
    whole_pct(c.high_ns, c.others_low_ns) AS whole_max_pct,
    c.reason
FROM compared AS c
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN marked AS m USING (trace_id)
WHERE c.work IS NOT NULL
ORDER BY
    w.rank NULLS LAST,
    w.trace_id, w.device,
    phase_order(c.phase),
    role_order(c.work) NULLS LAST,
    c.work
