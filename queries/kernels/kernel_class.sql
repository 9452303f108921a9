-- To which class and kind does each name of device work belong?
-- The one classifier: the rules of queries/rules/kernel_class.toml in order, the first that matches wins. A rules
-- file of the user's comes before them.
--
-- Kind:     table
-- Columns:
--   category  VARCHAR  category, as in the file
--   name      VARCHAR  kernel, copy or op
--   class     VARCHAR  class; other where no rule matches
--   kind      VARCHAR  compute, comm or memcpy
--   rule_id   INTEGER  the rule that decided, as in table kernel_rule

SELECT
    ruled_work.category, ruled_work.name,
    coalesce(kernel_rule.class, 'other') AS class,
    coalesce(kernel_rule.kind, 'compute') AS kind,
    ruled_work.rule_id
FROM scratch.ruled_work AS ruled_work
LEFT JOIN kernel_rule USING (rule_id)
ORDER BY ruled_work.category, ruled_work.name
