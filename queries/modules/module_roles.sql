-- Decoder role of each module, by name and class (queries/rules/roles.toml).
-- If the name of a Linear module does not show its role, its position does. In attention, the last such Linear is the
-- output projection, unless another module has that name; the others are QKV. Two or more Linears after the attention
-- of a layer are its MLP. Modules inside a Linear (LoRA) have its role.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Input:    module
-- Columns:
--   trace_id INTEGER, module_id INTEGER
--   rule_id          INTEGER  first rule that matches the name, class, or path of the module
--   role             VARCHAR  role; NULL if unknown
--   is_inferred      BOOLEAN  role inferred from the position of the module
--   is_in_attention  BOOLEAN  the module is an attention module, or inside one
--   section          VARCHAR  attention or ffn

WITH named AS (
    SELECT
        m.trace_id, m.module_id, m.position, m.last_position, m.rollup_path,
        regexp_replace(regexp_extract(m.name, '([^.]+)$', 1), '_\d+$', '') AS leaf,
        m.class,
        if(p.class = 'Sequential', p.parent_id, m.parent_id) AS layer_id
    FROM module AS m
    LEFT JOIN module AS p
        ON m.trace_id = p.trace_id AND m.parent_id = p.module_id
),

placed AS MATERIALIZED (
    SELECT
        leaf, class, rollup_path,
        role_rule_of_attention(rollup_path, FALSE) IS NOT NULL AS is_in_attention
    FROM named
    GROUP BY leaf, class, rollup_path
),

ruled AS MATERIALIZED (
    SELECT
        *,
        least(
            role_rule_of_leaf(leaf, is_in_attention),
            role_rule_of_leaf(class, is_in_attention),
            role_rule_of_path(rollup_path, is_in_attention)
        ) AS rule_id,
        role_rule_of_section(rollup_path, FALSE) AS section_rule_id
    FROM placed
),

decided AS (
    SELECT
        n.*,
        r.is_in_attention, r.section_rule_id, r.rule_id, k.role,
        regexp_matches(
            coalesce(n.class, n.leaf), 'Linear(?:4bit|8bitLt|Layer|_\w+)?$|^Conv1D$'
        ) AS is_linear,
        if(k.role IS NULL, is_linear, k.role IN ('QKV', 'Output')) AS is_projection
    FROM named AS n
    INNER JOIN ruled AS r
        ON
            n.leaf = r.leaf
            AND n.class IS NOT DISTINCT FROM r.class
            AND n.rollup_path = r.rollup_path
    LEFT JOIN role_rule AS k USING (rule_id)
),

-- Descendants directly follow their module. So a module is inside another one if the last
-- descendant of an earlier module is at or after its position.
nested AS (
    SELECT
        *,
        is_projection AND coalesce(
            max(last_position) FILTER (is_projection) OVER before < position, TRUE
        ) AS is_outer_projection,
        is_in_attention AND coalesce(
            max(last_position) FILTER (is_in_attention) OVER before < position, TRUE
        ) AS is_outer_attention
    FROM decided
    WINDOW before AS (
        PARTITION BY trace_id ORDER BY position
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

grouped AS (
    SELECT
        *,
        last_value(if(is_outer_projection, module_id, NULL) IGNORE NULLS) OVER up_to
            AS projection_id,
        max(if(is_outer_projection, last_position, NULL)) OVER up_to >= position
            AS is_in_projection,
        last_value(if(is_outer_attention, module_id, NULL) IGNORE NULLS) OVER up_to
            AS attention_id,
        max(last_position) FILTER (is_outer_attention) OVER layers AS attention_end
    FROM nested
    WINDOW
        up_to AS (PARTITION BY trace_id ORDER BY position),
        layers AS (PARTITION BY trace_id, layer_id)
),

counted AS (
    SELECT
        *,
        count(if(is_outer_projection, 1, NULL)) OVER attentions AS projection_count,
        max(position) FILTER (is_outer_projection) OVER attentions AS last_projection,
        bool_or(role = 'Output') OVER attentions AS has_output,
        min(if(is_linear AND position > attention_end, position, NULL)) OVER layers
            AS first_behind,
        max(if(is_linear AND position > attention_end, position, NULL)) OVER layers
            AS last_behind
    FROM grouped
    WINDOW
        attentions AS (PARTITION BY trace_id, is_in_attention, attention_id),
        layers AS (PARTITION BY trace_id, layer_id, is_in_attention)
),

inferred AS (
    SELECT
        *,
        CASE
            WHEN role IS NOT NULL THEN NULL
            WHEN is_in_attention AND is_outer_projection AND projection_count > 1
                THEN if(
                    position = last_projection AND NOT coalesce(has_output, FALSE),
                    'Output', 'QKV'
                )
            WHEN
                layer_id IS NOT NULL
                AND NOT is_in_attention
                AND first_behind < last_behind
                AND position BETWEEN first_behind AND last_behind
                THEN 'MLP'
        END AS inferred_role
    FROM counted
)

SELECT
    m.trace_id, m.module_id, m.rule_id,
    coalesce(m.role, m.inferred_role, p.role, p.inferred_role) AS role,
    m.role IS NULL
    AND (
        m.inferred_role IS NOT NULL OR (p.role IS NULL AND p.inferred_role IS NOT NULL)
    ) AS is_inferred,
    m.is_in_attention, s.role AS section
FROM inferred AS m
LEFT JOIN inferred AS p
    ON m.is_in_projection AND m.trace_id = p.trace_id AND m.projection_id = p.module_id
LEFT JOIN role_rule AS s ON m.section_rule_id = s.rule_id
