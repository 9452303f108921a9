-- Which names of ranges, Python calls and ops mean something for attribution, and what?
-- The rules of queries/rules/ranges.toml, applied once to every distinct name. Ops are here with and without a rule.
--
-- Kind:     table
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

SELECT
    (row_number() OVER (ORDER BY d.category, d.name))::INTEGER AS marker_id,
    d.category, d.name, d.rule_id,
    coalesce(r.means, 'op') AS means,
    r.phase, r.row_name,
    coalesce(r.is_weak, FALSE) AS is_weak,
    r.layer,
    coalesce(d.label, r.label, d.name) AS label,
    nullif(coalesce(d.module_class, r.class), '') AS module_class
FROM scratch.ruled_range AS d
LEFT JOIN range_rule AS r USING (rule_id)
WHERE
    is_op(d.category) AND r.means IS DISTINCT FROM 'step'
    OR r.means NOT IN ('step', 'span')
    OR r.phase IS NOT NULL
    OR r.row_name IS NOT NULL
ORDER BY marker_id
