-- Class and kind (compute, comm, or memcpy) of each kernel, copy, and op, by event category and name.
-- The first matching rule of queries/rules/kernel_class.toml determines the class. User rules are tried first.
--
-- Kind:     table
-- Columns:
--   category  VARCHAR
--   name     VARCHAR  kernel, copy, or op
--   class    VARCHAR  class; other if no rule matches
--   kind     VARCHAR
--   rule_id  INTEGER  rule that determined the class

SELECT
    classified_work.category, classified_work.name,
    coalesce(kernel_rule.class, 'other') AS class,
    coalesce(kernel_rule.kind, 'compute') AS kind,
    classified_work.rule_id
FROM scratch.classified_work AS classified_work
LEFT JOIN kernel_rule USING (rule_id)
ORDER BY classified_work.category, classified_work.name
