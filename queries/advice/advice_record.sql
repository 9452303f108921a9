-- What would have to be recorded to say more?
-- Stacks, where the host lets devices wait and no Python is in the trace; the other ranks, where some are missing.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, idle_gap, trace, device_windows, event_category
-- Columns:
--   what      VARCHAR  what was seen
--   place     VARCHAR  where
--   change    VARCHAR  what `tracekit predict` is asked, changes with "; " between them; NULL where it is not recorded
--   at_most   VARCHAR  the same for the upper end of the gain; NULL where that is no other
--   cost_ns   BIGINT   how long that took, ns; NULL where it is not known
--   remedy    VARCHAR  what to do
--   evidence  VARCHAR  the command that shows it
-- Invariant: cost_ns IS NULL OR cost_ns > 0

WITH idle AS (
    SELECT
        trace_id,
        sum(idle_ns) FILTER (cause IN ('host_bound', 'unknown'))::BIGINT AS host_ns
    FROM idle_gap
    GROUP BY trace_id
),

device_window AS (
    SELECT trace_id, sum(window_ns)::BIGINT AS window_ns
    FROM device_windows
    GROUP BY trace_id
),

p AS (SELECT trace_id FROM event WHERE is_python_call(category) GROUP BY ALL),

unseen AS (
    SELECT sum(i.host_ns)::BIGINT AS host_ns, sum(w.window_ns)::BIGINT AS window_ns
    FROM idle AS i
    INNER JOIN device_window AS w USING (trace_id)
    ANTI JOIN p
        ON i.trace_id = p.trace_id
),

ranks AS (SELECT max(world_size) AS world_size, count(DISTINCT rank) AS rank_count FROM trace)

SELECT
    format('devices wait {} for the host, and no Python is in the trace', in_ms(host_ns)) AS what,
    'between launches' AS place,
    NULL::VARCHAR AS change,
    NULL::VARCHAR AS at_most,
    host_ns AS cost_ns,
    'profile(..., with_stack=True), or collect --with-stack: then the lines are named' AS remedy,
    'tracekit query idle_causes TRACE' AS evidence
FROM unseen
WHERE host_ns > 0.05 * window_ns
UNION ALL
SELECT
    format('{} of {} ranks are here', rank_count, world_size) AS what,
    'other ranks' AS place,
    NULL AS change,
    NULL::VARCHAR AS at_most,
    NULL AS cost_ns,
    'open the folder of all ranks: who waits for whom shows only there' AS remedy,
    'tracekit query trace TRACE' AS evidence
FROM ranks
WHERE rank_count < world_size
