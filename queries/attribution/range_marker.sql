-- Which names of ranges, Python calls and ops mean something for attribution, and what?
-- The rules of queries/rules/ranges.toml, applied once to every distinct name. Ops are here with and without a rule.
--
-- Kind:     table
-- Requires: event_category, device_mark
-- Columns:
--   marker_id     INTEGER  number of the marker, from 1
--   category      VARCHAR  category, as in the file
--   name          VARCHAR  name of the range, call or op
--   rule_id       INTEGER  the rule that decided, as in table range_rule; NULL for a plain op
--   means         VARCHAR  what it is, as in table range_rule; op for a plain op
--   phase         VARCHAR  phase of what is inside
--   row_name      VARCHAR  row of modules for what is inside and belongs to no module
--   is_weak       BOOLEAN  the row counts only outside of all modules
--   layer         VARCHAR  begin: layers are numbered anew; next: this is the next layer
--   label         VARCHAR  name of the module or part
--   module_class  VARCHAR  its class

WITH span_name AS (
    SELECT DISTINCT
        category,
        name,
        CASE
            WHEN is_op(category) THEN 'op' WHEN is_annotation(category) THEN 'range' ELSE 'call'
        END AS applies_to
    FROM event
    WHERE is_op(category) OR is_annotation(category) OR is_python_call(category)
),

ruled_name AS MATERIALIZED (
    SELECT
        category,
        name,
        -- This and the three calls below stand for a CASE of the rules in table range_rule.
        range_rule_of(applies_to, name) AS rule_id
    FROM span_name
    WHERE applies_to <> 'call' OR is_marked_call(name)
),

labelled_name AS (
    SELECT
        *,
        range_label_of(rule_id, name) AS label,
        range_class_of(rule_id, name) AS module_class
    FROM ruled_name
)

SELECT
    (row_number() OVER (ORDER BY d.category, d.name))::INTEGER AS marker_id,
    d.category,
    d.name,
    d.rule_id,
    coalesce(r.means, 'op') AS means,
    r.phase,
    r.row_name,
    coalesce(r.is_weak, FALSE) AS is_weak,
    r.layer,
    coalesce(d.label, r.label, d.name) AS label,
    nullif(coalesce(d.module_class, r.class), '') AS module_class
FROM labelled_name AS d
LEFT JOIN range_rule AS r ON d.rule_id = r.rule_id
WHERE
    is_op(d.category) AND r.means IS DISTINCT FROM 'step'
    OR r.means NOT IN ('step', 'span')
    OR r.phase IS NOT NULL
    OR r.row_name IS NOT NULL
ORDER BY marker_id
