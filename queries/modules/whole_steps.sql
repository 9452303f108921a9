-- How long would the work of the whole model be on each device, of which the run had only some layers?
-- The times and shares that layers, role_layers and serving_layers extrapolate, as the mean over the devices of the run.
-- One without such work counts as 0. Where one of them is not told of a device, neither is the mean.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   layers
-- Requires: layers(), role_layers(), serving_layers()
-- Params:
--   layers  BIGINT = NULL  layers of the whole model; without it nothing is extrapolated
-- Columns:
--   source             VARCHAR  layers, role_layers or serving_layers: the analysis that has it for each device
--   phase              VARCHAR  as there
--   work_group         VARCHAR  the task_group of serving_layers; NULL elsewhere
--   work               VARCHAR  the work, role or task there
--   whole_step_ns      DOUBLE   time per step of the whole model, at least, ns
--   whole_max_step_ns  DOUBLE   the same, at most, ns
--   whole_pct          DOUBLE   share, as there, at least, 0 to 100
--   whole_max_pct      DOUBLE   share, at most, 0 to 100
--   reason             VARCHAR  why nothing can be extrapolated of a device; NULL if it can of all
--   least_layer_count  BIGINT   layers in the trace of a device of which it can, at least
--   most_layer_count   BIGINT   the same, at most
--   has_steps          BOOLEAN  the traces of all devices that have such work mark steps
--   device_count       BIGINT   devices that the means are over
-- Keep:      source, phase, work, whole_step_ns, whole_max_step_ns, whole_pct, whole_max_pct, reason, device_count
-- Invariant: whole_step_ns IS NULL OR (reason IS NULL AND whole_step_ns <= whole_max_step_ns * 1.0000001)
-- Invariant: whole_pct IS NULL OR (0 <= whole_pct AND whole_pct <= whole_max_pct + 0.0000001)
-- Invariant: whole_max_pct IS NULL OR whole_max_pct <= 100.0000001

WITH told AS (
    SELECT
        *,
        1 AS place,
        row_number() OVER () AS row_place,
        'layers' AS source,
        NULL AS work_group
    FROM layers(p_layers := $layers)
    UNION ALL BY NAME
    SELECT
        * RENAME (role AS work),
        2 AS place,
        row_number() OVER () AS row_place,
        'role_layers' AS source
    FROM role_layers(p_layers := $layers)
    UNION ALL BY NAME
    SELECT
        * RENAME (task AS work, task_group AS work_group),
        3 AS place,
        row_number() OVER () AS row_place,
        'serving_layers' AS source
    FROM serving_layers(p_layers := $layers)
),

devices AS (
    SELECT source, count(DISTINCT {rank: rank, device: device}) AS device_count
    FROM told
    GROUP BY source
)

SELECT
    t.source, t.phase, t.work_group, t.work,
    if(
        count(*) = count(t.whole_step_ns),
        fsum(t.whole_step_ns ORDER BY t.row_place) / any_value(d.device_count), NULL
    ) AS whole_step_ns,
    if(
        count(*) = count(t.whole_max_step_ns),
        fsum(t.whole_max_step_ns ORDER BY t.row_place) / any_value(d.device_count), NULL
    ) AS whole_max_step_ns,
    if(
        count(*) = count(t.whole_pct),
        fsum(t.whole_pct ORDER BY t.row_place) / any_value(d.device_count), NULL
    ) AS whole_pct,
    if(
        count(*) = count(t.whole_max_pct),
        fsum(t.whole_max_pct ORDER BY t.row_place) / any_value(d.device_count), NULL
    ) AS whole_max_pct,
    arg_min(t.reason, t.row_place) FILTER (t.reason IS NOT NULL) AS reason,
    min(t.layer_count) FILTER (t.reason IS NULL) AS least_layer_count,
    max(t.layer_count) FILTER (t.reason IS NULL) AS most_layer_count,
    bool_and(t.step_ns IS NOT NULL) AS has_steps,
    any_value(d.device_count) AS device_count
FROM told AS t
INNER JOIN devices AS d USING (source)
GROUP BY t.source, t.phase, t.work_group, t.work
ORDER BY min(t.place), min(t.row_place)
