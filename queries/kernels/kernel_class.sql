-- To which class and kind does each name of device work belong?
-- The one classifier: the rules of queries/rules/kernel_class.toml in order, the first that matches wins. A rules
-- file of the user's comes before them.
--
-- Kind:     table
-- Requires: accelerator, device_work
-- Columns:
--   category  VARCHAR  category, as in the file
--   name      VARCHAR  kernel, copy or op
--   class     VARCHAR  class; other where no rule matches
--   kind      VARCHAR  compute, comm or memcpy
--   rule_id   INTEGER  the rule that decided, as in table kernel_rule

WITH work_name AS MATERIALIZED (
    SELECT
        category,
        name,
        CASE WHEN bool_or(device <> 'cpu') THEN 'device' ELSE 'cpu' END AS applies_to
    FROM device_work
    GROUP BY category, name
),

ruled_name AS (
    SELECT
        category,
        name,
        -- Stands for a CASE of all rules in table kernel_rule.
        kernel_rule_of(applies_to, category, name) AS rule_id
    FROM work_name
)

SELECT
    ruled_name.category,
    ruled_name.name,
    coalesce(kernel_rule.class, 'other') AS class,
    coalesce(kernel_rule.kind, 'compute') AS kind,
    ruled_name.rule_id
FROM ruled_name
LEFT JOIN kernel_rule ON ruled_name.rule_id = kernel_rule.rule_id
ORDER BY ruled_name.category, ruled_name.name
