-- Mean attention time per step and layer, over all layers and devices.
-- The attention of a layer consists of its outermost modules with attention in their name, except norms
-- (post_attention_layernorm). Devices without steps are excluded.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   layers per attention
-- Columns:
--   phase         VARCHAR
--   step_wall_ns  DOUBLE  busy time per step and layer, ns; overlap counts once
--   layer_count   BIGINT  number of layers in the mean, over all devices
--   device_count  BIGINT
-- Invariant: 0 <= step_wall_ns AND device_count <= layer_count

WITH named AS (
    SELECT
        rank, device, phase, layer, parent_path, row_number() OVER () AS place, total_wall_ns,
        regexp_extract(module_path, '([^./]*)$', 1) AS own_name,
        regexp_extract(module_path, '^(.*)[./][^./]*$', 1) AS outer_path
    FROM modules(p_steps := TRUE)
    WHERE layer IS NOT NULL
),

timed AS (
    SELECT
        n.rank, n.device, n.phase, n.layer, n.parent_path,
        min(n.place) AS place,
        sum(n.total_wall_ns) / any_value(c.step_count) AS step_wall_ns
    FROM named AS n
    INNER JOIN stepped_devices('steps') AS c
        ON n.rank IS NOT DISTINCT FROM c.rank AND n.device = c.device
    WHERE
        regexp_matches(n.own_name, '(?i)attn|attention')
        AND NOT regexp_matches(n.own_name, '(?i)norm|^ln_|_ln$')
        AND NOT regexp_matches(n.outer_path, '(?i)attn|attention')
    GROUP BY n.rank, n.device, n.phase, n.layer, n.parent_path
)

SELECT
    phase,
    avg(step_wall_ns) AS step_wall_ns,
    count(*) AS layer_count,
    count(DISTINCT {rank: rank, device: device}) AS device_count
FROM timed
GROUP BY phase
ORDER BY min(place)
