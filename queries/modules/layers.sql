-- GPU time per layer, from modules or repeated kernel sequences.
-- In traces without modules, layers are the blocks of repeated_layer, and the rows `before` and `after` contain the
-- other work of each pass. Layers are numbered from 0 in forward order. If outer_count is not 0, the model also has
-- layers of another structure; their work is in the rows `before` and `after`.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   roles  BOOLEAN = FALSE  one row per part (role) of each layer, as in analysis roles
-- Columns:
--   rank INTEGER, device VARCHAR, phase VARCHAR
--   place         VARCHAR  before, layer, or after
--   layer         INTEGER  layer number, from 0; NULL before and after
--   role          VARCHAR  part, as in roles; NULL for all
--   pass_count    BIGINT   number of passes with this work; with modules, number of steps (work outside marked steps is excluded)
--   kernel_count  BIGINT   number of device events in all passes
--   kernel_ns BIGINT, wall_ns BIGINT
--   pass_ns       DOUBLE   kernel_ns per pass, ns
--   outer_count   BIGINT   maximum number of attention calls outside layers in a pass; NULL with modules
-- Empty: no module has a layer number, and no block of kernels with attention repeats in a pass
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND pass_count > 0 AND (layer IS NULL) = (place <> 'layer')

WITH work AS (
    SELECT
        k.* REPLACE (if($roles, k.role, NULL) AS role),
        r.pass_id, r.layer, r.place, r.outer_count
    FROM repeated_layer AS r
    INNER JOIN role_work AS k USING (trace_id, event_id, piece)
    UNION ALL BY NAME
    SELECT
        k.* REPLACE (if($roles, k.role, NULL) AS role),
        coalesce(k.step, -1) AS pass_id, m.layer, 'layer' AS place
    FROM role_work AS k
    INNER JOIN module AS m USING (trace_id, module_id)
    WHERE
        m.layer IS NOT NULL
        AND is_in_step(k.trace_id, k.step)
        AND k.trace_id NOT IN (SELECT trace_id FROM repeated_layer)
)

SELECT
    w.rank, w.device, k.phase, k.place, k.layer, k.role,
    count(DISTINCT k.pass_id) AS pass_count,
    count(*) FILTER (k.piece = 0) AS kernel_count,
    sum(k.dur_ns)::BIGINT AS kernel_ns,
    sum(k.wall_ns)::BIGINT AS wall_ns,
    sum(k.dur_ns) / count(DISTINCT k.pass_id) AS pass_ns,
    max(k.outer_count) AS outer_count
FROM work AS k
INNER JOIN device_windows AS w USING (trace_id, device)
GROUP BY w.rank, k.trace_id, w.device, k.phase, k.place, k.layer, k.role
ORDER BY
    w.rank NULLS LAST,
    k.trace_id, w.device,
    phase_order(k.phase) NULLS LAST,
    list_position(['before', 'layer', 'after'], k.place),
    k.layer,
    role_order(k.role) NULLS LAST,
    k.role
