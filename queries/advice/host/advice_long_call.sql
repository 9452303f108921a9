-- Single ops that run long on the CPU while the GPU is idle.
-- Reported if these ops cause at least a fifth of the host-caused idle time.
--
-- Kind:     advice
-- Scope:    run

SELECT
    format(
        'The GPU is idle for {} during {} of {} on the CPU{} (median call: {})',
        in_ms(sum(idle_ns)) || of_ranks(), count_of(count(*), 'call'), op,
        coalesce(
            ' in step ' || array_to_string(
                list_sort(list(DISTINCT step) FILTER (step IS NOT NULL)), ', '
            ), ''
        ),
        in_ms(any_value(median_ns))
    ) AS what,
    'long CPU call: ' || op
    || coalesce(' in step ' || if(count(DISTINCT step) = 1, min(step), NULL), '') AS place,
    format('op={}', chosen_name(op))
    || coalesce(' step=' || if(count(DISTINCT step) = 1, min(step), NULL), '')
    || ' remove' AS change,
    sum(idle_ns)::BIGINT AS cost_ns,
    'Find out what this call waits for or computes on the CPU (with_stack=True shows the line). '
    || 'Run it once before the loop, or in another thread or process.' AS remedy,
    'tracekit query idle_gaps TRACE --cause host_bound' AS evidence
FROM long_call_gap
GROUP BY op
HAVING
    sum(idle_ns) >= 0.2 * (
        SELECT sum(idle_ns) FROM idle_gap WHERE cause = 'host_bound' AND device <> 'cpu'
    )
ORDER BY cost_ns DESC, op
LIMIT 3
