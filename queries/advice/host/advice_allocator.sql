-- Allocator calls (cudaMalloc, cudaFree) inside steps, and fragmented GPU memory.
-- Allocator calls also synchronize the device. Calls in the first marked step are ignored. Memory counts as fragmented
-- if at least 80 % of it is reserved, and at least 10 % is reserved but unused at the peak.
--
-- Kind:     advice
-- Scope:    run

WITH first_step AS (
    SELECT trace_id, min(end_ns) AS end_ns
    FROM step_ranges
    GROUP BY trace_id
    HAVING count(DISTINCT step) > 1
),

calls AS (
    SELECT e.name, count(*) AS call_count, sum(w.dur_ns)::BIGINT AS wait_ns
    FROM host_waits AS w
    INNER JOIN event AS e USING (trace_id, event_id)
    LEFT JOIN first_step AS f ON w.trace_id = f.trace_id
    WHERE w.kind = 'allocator' AND (f.end_ns IS NULL OR w.ts_ns >= f.end_ns)
    GROUP BY e.name
),

peaks AS (
    SELECT
        max(m.reserved_bytes) AS reserved_bytes,
        arg_max(m.reserved_bytes - m.highest_bytes, (m.highest_bytes, -m.place))
            AS unused_bytes,
        any_value(d.total_memory_bytes) AS memory_bytes
    FROM memory_event AS m
    INNER JOIN device AS d ON m.trace_id = d.trace_id AND m.device = d.device_id::VARCHAR
    GROUP BY m.trace_id, m.device
)

SELECT
    format(
        'The host waits {} in {} of {}{}', in_ms(sum(wait_ns)) || of_ranks(),
        count_of(sum(call_count), 'call'), string_agg(name, ', ' ORDER BY name),
        if(
            EXISTS (FROM step_ranges), '',
            '. No steps are marked, so calls of the first step may be included'
        )
    ) AS what,
    'GPU memory allocated in steps' AS place,
    string_agg(format('call={} remove', chosen_name(name)), '; ' ORDER BY name) AS change,
    sum(wait_ns)::BIGINT AS cost_ns,
    'Set PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF before torch '
    || '2.9), remove empty_cache() from the loop, and pad batches to a few lengths' AS remedy,
    'tracekit query idle_gaps TRACE --cause allocator' AS evidence
FROM calls
HAVING sum(wait_ns) > 0
UNION ALL BY NAME
SELECT
    format(
        'The allocator reserves {1:.1f} of {0:.1f} GB of GPU memory, and {2:.1f} GB of that '
        || 'are unused at the peak', memory_bytes / 1e9, reserved_bytes / 1e9,
        unused_bytes / 1e9
    ) AS what,
    'fragmented GPU memory' AS place,
    'Record a second run with PYTORCH_ALLOC_CONF=expandable_segments:True and the larger batch '
    || 'that then fits' AS remedy,
    'tracekit query memory TRACE' AS evidence
FROM peaks
WHERE reserved_bytes >= 0.8 * memory_bytes AND unused_bytes >= 0.1 * memory_bytes
ORDER BY cost_ns DESC NULLS LAST
LIMIT 2
