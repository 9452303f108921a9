-- Host work in traces without recorded device work, summed over all traces.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   unrecorded per total
-- Input:    unrecorded
-- Columns:
--   kind      VARCHAR  op, call (runtime or driver), or range
--   name      VARCHAR  op, call, or range
--   op_count  BIGINT   number of occurrences
--   host_ns   BIGINT   self time on the host, ns
--   host_pct  DOUBLE   share of the host work, 0 to 100
-- Invariant: host_pct IS NULL OR (0 <= host_pct AND host_pct <= 100)

SELECT
    kind, name,
    sum(op_count)::BIGINT AS op_count,
    sum(host_ns)::BIGINT AS host_ns,
    100.0 * sum(host_ns)::BIGINT / nullif(sum(sum(host_ns)) OVER ()::BIGINT, 0) AS host_pct
FROM unrecorded
WHERE name IS NOT NULL
GROUP BY kind, name
ORDER BY sum(host_ns) DESC, name, kind
