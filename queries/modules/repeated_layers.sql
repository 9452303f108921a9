-- How long does each layer take where no module tells the layers: by the repetition of kernels in a pass?
-- The blocks of table repeated_layer, of the forward and backward work of a stream or the replays of a graph, and what runs
-- before and after them. Layers are numbered from 0 in each pass, in the order in which they run forward. Where outer_count is not 0, so many
-- calls of attention are in no block: the model has layers of another form, whose work is in rows before and after.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   roles  BOOLEAN = FALSE  a row for each part of each layer, as in roles
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu
--   phase         VARCHAR  as in phases
--   place         VARCHAR  before, layer or after
--   layer         INTEGER  number of the layer, from 0; NULL before and after
--   role          VARCHAR  the part, as in roles; NULL for all together
--   pass_count    BIGINT   passes that have such work
--   kernel_count  BIGINT   device events in all passes
--   kernel_ns     BIGINT   sum of their durations, ns
--   wall_ns       BIGINT   busy time that is their own, ns
--   pass_ns       DOUBLE   kernel_ns of one pass, ns
--   outer_count   BIGINT   calls of attention in a pass that are in no layer, at most
-- Empty: modules tell the layers, or no block of kernels with attention repeats in a pass
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND pass_count > 0 AND (layer IS NULL) = (place <> 'layer')

WITH work AS (
    SELECT
        k.* REPLACE (if($roles, k.role, NULL) AS role),
        r.pass_id, r.layer, r.place, r.outer_count
    FROM repeated_layer AS r
    INNER JOIN role_work AS k USING (trace_id, event_id, piece)
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
