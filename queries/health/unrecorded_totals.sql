-- What did the hosts of the run do meanwhile, where the work of devices is not in the files?
-- The sums of unrecorded over all traces, by name; none where the host has no ops.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   unrecorded
-- Input:    unrecorded
-- Columns:
--   kind      VARCHAR  op, call (of the runtime or driver) or range
--   name      VARCHAR  the op, call or range
--   op_count  BIGINT   how often it ran
--   host_ns   BIGINT   how long it was the innermost one on its thread, ns
--   host_pct  DOUBLE   its share of what the threads of the hosts worked, 0 to 100
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
