-- Which role does each module have in a decoder, by its name?
-- The rules of queries/rules/roles.toml, applied once to every distinct name. A bare Linear inside attention is the
-- output projection if it is the last one that its module calls, else one of QKV. module_roles('module') is a relation.
--
-- Kind:     macro
-- Access:   private
-- Params:
--   modules  VARCHAR  name of the relation of modules: table module
-- Columns:
--   trace_id         INTEGER  the trace
--   module_id        INTEGER  the module, as in table module
--   rule_id          INTEGER  the first rule that its name or path matches, as in table role_rule
--   role             VARCHAR  role by that rule; NULL where its name tells none
--   is_in_attention  BOOLEAN  it is an attention module or inside of one
--   section          VARCHAR  attention or ffn, as a section of a layer

CREATE OR REPLACE MACRO module_roles(modules) AS TABLE (
    WITH named AS (
        SELECT
            trace_id,
            module_id,
            parent_id,
            rollup_path,
            regexp_replace(regexp_extract(name, '([^.]+)$', 1), '_\d+$', '') AS leaf,
            regexp_extract(name, '_(\d+)$', 1) AS instance
        FROM query_table(modules)
    ),

    shape AS (
        SELECT DISTINCT
            leaf,
            rollup_path
        FROM named
    ),

    ruled AS MATERIALIZED (
        SELECT
            leaf,
            rollup_path,
            role_rule_of_leaf(leaf, FALSE) AS leaf_rule_id,
            role_rule_of_path(rollup_path, FALSE) AS path_rule_id,
            role_rule_of_attention(rollup_path, FALSE) IS NOT NULL AS is_in_attention,
            role_rule_of_section(rollup_path, FALSE) AS section_rule_id
        FROM shape
    ),

    decided AS (
        SELECT
            n.trace_id,
            n.module_id,
            n.leaf,
            least(r.leaf_rule_id, r.path_rule_id) AS rule_id,
            r.is_in_attention,
            r.section_rule_id,
            row_number() OVER (
                PARTITION BY n.trace_id, n.parent_id, n.leaf
                ORDER BY try_cast(n.instance AS BIGINT) DESC, n.module_id DESC
            ) AS place_from_end
        FROM named AS n
        INNER JOIN ruled AS r ON n.leaf = r.leaf AND n.rollup_path = r.rollup_path
    )

    SELECT
        d.trace_id,
        d.module_id,
        d.rule_id,
        CASE
            WHEN
                d.is_in_attention
                AND r.role IS NULL
                AND d.leaf IN ('Linear', 'Linear4bit', 'Linear8bitLt', 'LoraLinear', 'LinearLayer')
                THEN CASE WHEN d.place_from_end = 1 THEN 'Output' ELSE 'QKV' END
            ELSE r.role
        END AS role,
        d.is_in_attention,
        s.role AS section
    FROM decided AS d
    LEFT JOIN role_rule AS r ON d.rule_id = r.rule_id
    LEFT JOIN role_rule AS s ON d.section_rule_id = s.rule_id
);
