-- Does the program get or return memory of the device in its steps?
-- Calls such as cudaMalloc and cudaFree, which also wait for the device; those of the first marked step are left out.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, host_waits, event, step_ranges
-- Columns:
--   what      VARCHAR  what was seen
--   place     VARCHAR  where
--   change    VARCHAR  what `tracekit predict` is asked, changes with "; " between them; NULL where it is not recorded
--   at_most   VARCHAR  the same for the upper end of the gain; NULL where that is no other
--   cost_ns   BIGINT   how long that took, ns; NULL where it is not known
--   remedy    VARCHAR  what to do
--   evidence  VARCHAR  the command that shows it
-- Invariant: cost_ns IS NULL OR cost_ns > 0

WITH first_step AS (
    SELECT trace_id, min(end_ns) AS end_ns
    FROM step_ranges
    GROUP BY trace_id
    HAVING count(*) > 1
),

calls AS (
    SELECT e.name, count(*) AS call_count, sum(w.dur_ns)::BIGINT AS wait_ns
    FROM host_waits AS w
    INNER JOIN event AS e USING (trace_id, event_id)
    LEFT JOIN first_step AS f ON w.trace_id = f.trace_id
    WHERE w.kind = 'allocator' AND (f.end_ns IS NULL OR w.ts_ns >= f.end_ns)
    GROUP BY e.name
)

SELECT
    format(
        '{} calls of {}, {} together', sum(call_count), string_agg(name, ', ' ORDER BY name),
        in_ms(sum(wait_ns))
    ) AS what,
    'the caching allocator' AS place,
    string_agg(format('call={} remove', chosen_name(name)), '; ' ORDER BY name) AS change,
    NULL::VARCHAR AS at_most,
    sum(wait_ns)::BIGINT AS cost_ns,
    'PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF before torch 2.9); no '
    || 'empty_cache() in the loop; pad batches to a few lengths' AS remedy,
    'tracekit query idle_gaps TRACE --cause allocator' AS evidence
FROM calls
HAVING sum(wait_ns) > 0
