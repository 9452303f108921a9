-- Recording settings that would explain more of the trace.
-- Stacks show the cause of host-caused idle time, and recorded stream synchronization the cause of unexplained gaps.
-- Other settings are a longer warm-up for missing GPU work, a finer host clock, and traces of missing ranks.
--
-- Kind:     advice
-- Scope:    run

WITH pause AS (
    SELECT trace_id, start_ns, end_ns
    FROM host_pauses
    WHERE is_repeated
),

gap AS (
    SELECT
        g.trace_id, g.cause, g.reason, g.idle_ns,
        g.trace_id IN (SELECT trace_id FROM event WHERE is_python_call(category)) AS has_python
    FROM idle_gap AS g
    -- Recurring host stalls have their own rule, advice_pauses.
    ASOF LEFT JOIN pause AS p ON g.trace_id = p.trace_id AND g.end_ns > p.start_ns
    WHERE g.reason IS DISTINCT FROM 'nothing recorded' OR coalesce(p.end_ns <= g.start_ns, TRUE)
),

unseen AS (
    SELECT
        sum(idle_ns) FILTER (
            NOT has_python AND (cause = 'host_bound' OR reason = 'nothing recorded')
        ) AS host_ns,
        count(*) FILTER (NOT has_python AND reason = 'nothing recorded') AS unrecorded_count,
        sum(idle_ns) FILTER (NOT has_python AND reason = 'nothing recorded') AS unrecorded_ns,
        max(idle_ns) FILTER (NOT has_python AND reason = 'nothing recorded') AS longest_ns,
        sum(idle_ns) FILTER (
            cause = 'unknown' AND reason NOT IN ('nothing recorded', 'host clock too coarse')
        ) AS unknown_ns,
        sum(idle_ns) FILTER (cause = 'not_recorded' AND reason = 'host waited') AS awaited_ns,
        sum(idle_ns) FILTER (reason = 'host clock too coarse') AS coarse_ns,
        (
            SELECT sum(window_ns) FROM device_windows WHERE trace_id IN (SELECT trace_id FROM gap)
        ) AS window_ns,
        if(
            EXISTS (FROM device_windows WHERE device <> 'cpu'), 'The GPU is', 'The devices are'
        ) AS device_word
    FROM gap
),

ranks AS (SELECT max(world_size) AS world_size, count(DISTINCT rank) AS rank_count FROM trace)

SELECT
    format(
        '{} idle for {}{} because the host launches work late or for an unrecorded reason. '
        || 'The trace has no Python events that would show why{}',
        device_word, in_ms(host_ns), of_ranks(),
        if(
            unrecorded_ns > 0.01 * window_ns,
            format(
                '. For {} of that ({} gaps, longest {}), no host thread has an event: the '
                || 'program sleeps, reads, or computes during that time',
                in_ms(unrecorded_ns), unrecorded_count, in_ms(longest_ns)
            ), ''
        )
    ) AS what,
    'between launches' AS place,
    NULL::VARCHAR AS change,
    mean_ns(host_ns) AS cost_ns,
    'Record with profile(..., with_stack=True) or --with-stack to see the Python lines' AS remedy,
    'tracekit query idle_causes TRACE' AS evidence
FROM unseen
WHERE host_ns > 0.05 * window_ns
UNION ALL BY NAME
SELECT
    format(
        '{} idle for {}{} for a reason that is not recorded', device_word,
        in_ms(unknown_ns), of_ranks()
    ) AS what,
    'before kernels that were launched in time' AS place,
    mean_ns(unknown_ns) AS cost_ns,
    'Record stream waits with '
    || 'profile(experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)), and the '
    || 'nodes of CUDA graphs with nsys profile --cuda-graph-trace=node' AS remedy,
    'tracekit query idle_gaps TRACE' AS evidence
FROM unseen
WHERE unknown_ns > 0.05 * window_ns
UNION ALL BY NAME
SELECT
    format('{} idle for {}{}{}', device_word, in_ms(d.idle_ns), of_ranks(), d.why) AS what,
    'between launches' AS place,
    mean_ns(d.idle_ns) AS cost_ns,
    d.remedy, d.evidence
FROM unseen, (
    VALUES
    (
        awaited_ns, ' while the host waits for GPU work that is not in the trace',
        'Use a longer profiler warm-up, or record fewer events at a time',
        'tracekit query sync_waits TRACE'
    ),
    (
        coarse_ns, ', and the host clock is too coarse to separate launches',
        'Record on a machine whose host clock has a resolution of 1 µs or better',
        'tracekit query health TRACE'
    )
) AS d (idle_ns, why, remedy, evidence)
WHERE d.idle_ns > 0.05 * window_ns
UNION ALL BY NAME
SELECT
    format(
        'Waits for other ranks are unknown: the trace has {} of {} ranks', rank_count, world_size
    ) AS what,
    'other ranks' AS place,
    'Open the folder of all ranks to see which rank waits for which' AS remedy,
    'tracekit query trace TRACE' AS evidence
FROM ranks
WHERE rank_count < world_size
