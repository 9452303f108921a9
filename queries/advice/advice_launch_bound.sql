-- In which phases does the GPU wait for the CPU to launch kernels?
-- Idle time by host_bound, on accelerators. Gaps of 1 ms and more in the middle of which no op is open are pauses: the
-- program sleeps, reads or computes, and launches are not to blame. A captured graph leaves about a tenth of the host's time there, which is
-- assumed; of a training loop the whole step is captured. Left out are phases with less than 1 % of the window, loading of data, and phases whose work is mostly launched
-- by graphs already. Of torch.compile that is in use only what it lacks is proposed.
--
-- Kind:     advice
-- Scope:    run
-- Input:    idle_causes

WITH gaps AS (
    SELECT
        g.phase,
        g.idle_ns >= 1_000_000 AND g.busy_op_id IS NULL AS is_pause,
        sum(g.idle_ns)::BIGINT AS idle_ns
    FROM idle_gap AS g
    WHERE g.cause = 'host_bound' AND g.device <> 'cpu'
    GROUP BY ALL
),

launched AS (
    SELECT
        a.phase,
        count(*) FILTER (l.name LIKE '%GraphLaunch%') AS graph_count,
        count(*) AS work_count
    FROM attributed_events AS a
    INNER JOIN launch AS l USING (trace_id, launch_id)
    GROUP BY a.phase
),

device_window AS (SELECT sum(window_ns) AS window_ns FROM device_windows),

host_bound AS (
    SELECT
        sum(idle_ns)::BIGINT AS idle_ns,
        (SELECT coalesce(sum(idle_ns), 0)::BIGINT FROM gaps WHERE is_pause) AS pause_ns
    FROM idle_causes
    WHERE cause = 'host_bound'
),

phases AS (
    SELECT g.phase, g.idle_ns
    FROM gaps AS g
    INNER JOIN launched AS l USING (phase)
    CROSS JOIN device_window AS w
    WHERE
        g.idle_ns > 0.01 * w.window_ns
        AND NOT g.is_pause
        AND g.phase NOT IN ('data', 'other')
        AND l.graph_count * 2 < l.work_count
),

in_use AS (
    SELECT
        *,
        is_training AND NOT is_compiled AND NOT has_graphs AND is_marked AND is_of_all
            AS may_be_captured
    FROM (
        SELECT
            EXISTS(SELECT 1 FROM compiled_regions) AS is_compiled,
            coalesce((SELECT sum(graph_count) FROM launched), 0) > 0 AS has_graphs,
            EXISTS(SELECT 1 FROM launched WHERE phase = 'backward') AS is_training,
            EXISTS(SELECT 1 FROM step_ranges) AS is_marked,
            EXISTS(SELECT 1 FROM phases WHERE phase <> 'optimizer') AS is_of_all
    ) AS seen
)

SELECT
    format(
        'the CPU launches too late: GPU{} idle {}, of it {}{}', of_ranks(),
        in_ms(any_value(h.idle_ns)),
        string_agg(
            format('{} in {}', in_ms(p.idle_ns), p.phase), ', ' ORDER BY p.idle_ns DESC, p.phase
        ),
        if(
            any_value(h.pause_ns) > 0,
            format('; {} are pauses of the program, which stay', in_ms(any_value(h.pause_ns))), ''
        )
    ) AS what,
    'the GPU waits for the CPU to launch kernels' AS place,
    if(
        any_value(u.may_be_captured),
        'graph on',
        string_agg(format('host phase={} x0.1', p.phase), '; ' ORDER BY p.idle_ns DESC, p.phase)
    ) AS change,
    if(
        any_value(u.may_be_captured),
        NULL,
        string_agg(format('host phase={} remove', p.phase), '; ' ORDER BY p.idle_ns DESC, p.phase)
    ) AS at_most,
    sum(p.idle_ns)::BIGINT AS cost_ns,
    CASE
        -- Of an engine: a plain loop that generates has its phases by its passes.
        WHEN
            bool_or(p.phase IN ('decode', 'prefill', 'mixed', 'generation'))
            AND NOT EXISTS (FROM generating_launch)
            THEN
                'capture CUDA graphs for the batch sizes that occur (vLLM: no enforce_eager; '
                || 'SGLang: --cuda-graph-max-bs; LightLLM: no --disable_cudagraph), or serve '
                || 'larger batches'
        WHEN bool_and(p.phase = 'optimizer')
            THEN
                'a larger batch; or capture the step of the optimizer in a CUDA graph '
                || '(capturable=True)'
        WHEN any_value(u.has_graphs)
            THEN
                'capture the rest in CUDA graphs, too: no graph breaks, static shapes; a larger '
                || 'batch'
        WHEN any_value(u.is_compiled)
            THEN
                'capture CUDA graphs of the compiled code (mode="reduce-overhead"); a larger '
                || 'batch'
        WHEN NOT any_value(u.is_training)
            THEN
                'torch.compile(model, mode="reduce-overhead") with static shapes (of generation: '
                || 'a static KV cache), or a larger batch'
        ELSE
            'capture the step in a CUDA graph (torch.cuda.graph), of which '
            || 'torch.compile(model, mode="reduce-overhead") captures parts; a larger batch'
    END AS remedy,
    'tracekit query idle_causes TRACE' AS evidence
FROM phases AS p
CROSS JOIN in_use AS u
CROSS JOIN host_bound AS h
HAVING count(*) > 0
