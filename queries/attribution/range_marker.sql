-- Names of ranges, Python calls, and ops that determine the attribution.
-- Applies the rules of queries/rules/ranges.toml to each distinct name. Ops without a rule are included as plain ops.
-- If a file has more than 50,000 names of ranges, such as `request 17`, names that differ in numbers share a label.
--
-- Kind:     table
-- Columns:
--   marker_id     INTEGER  marker number, from 1
--   category      VARCHAR
--   name          VARCHAR  name of the range, call, or op
--   rule_id       INTEGER  deciding rule; NULL for a plain op
--   means         VARCHAR  meaning, as in range_rule; op for a plain op
--   phase         VARCHAR  phase of the work inside
--   row_name      VARCHAR  row, such as (optimizer), of work directly inside that has no module of its own
--   is_weak       BOOLEAN  TRUE: the row applies only to work without any module; FALSE: modules outside the range do not apply inside it
--   layer         VARCHAR  begin: layer numbering restarts; next: the next layer starts
--   label         VARCHAR  name of the module or part
--   module_class  VARCHAR  module class

SELECT
    (row_number() OVER (ORDER BY d.category, d.name))::INTEGER AS marker_id,
    d.category, d.name, d.rule_id,
    coalesce(r.means, 'op') AS means,
    r.phase, r.row_name,
    coalesce(r.is_weak, FALSE) AS is_weak,
    r.layer,
    if(
        r.means = 'range' AND count(if(r.means = 'range', 1, NULL)) OVER () > 50000,
        regexp_replace(coalesce(d.label, r.label, d.name), '[0-9]+', '*', 'g'),
        coalesce(d.label, r.label, d.name)
    ) AS label,
    nullif(coalesce(d.module_class, r.class), '') AS module_class
FROM scratch.classified_range AS d
LEFT JOIN range_rule AS r USING (rule_id)
WHERE
    is_op(d.category) AND r.means IS DISTINCT FROM 'step'
    OR r.means NOT IN ('step', 'span')
    OR r.phase IS NOT NULL
    OR r.row_name IS NOT NULL
ORDER BY marker_id
