-- GPU idle time because the CPU launches kernels too late, by phase.
-- The total is the host-bound idle time, as in `idle_causes`. The phases exclude long calls (`long_call_gap`) and times
-- in which the launching thread is outside ops and calls for 1 ms or more. Phases `data` and `other`, phases with at most
-- 1 % of the window as idle time, and phases that launch at least half of their work with graphs are not listed. The
-- predicted change captures the training step in a CUDA graph. If the trace does not allow that, it removes at least 90 %
-- of the host time: in compiled regions if there are any, else in these phases.
--
-- Kind:     advice
-- Scope:    run

WITH late AS (
    SELECT
        (trace_id, pid, coalesce(busy_tid, tid)) AS part,
        row_number() OVER () AS id,
        trace_id, gap_id, phase, idle_ns, start_ns,
        start_ns + host_ns AS end_ns
    FROM idle_gap
    WHERE cause = 'host_bound' AND device <> 'cpu'
),

act AS (
    SELECT
        (trace_id, pid, tid) AS part,
        event_id AS id,
        ts_ns AS start_ns,
        ts_ns + dur_ns AS end_ns
    FROM event
    WHERE
        (is_op(category) OR is_launch_call(category))
        AND (trace_id, pid, tid) IN (SELECT part FROM late)
),

outside_ops AS (
    SELECT part, start_ns, end_ns
    FROM interval_gaps('act')
    WHERE end_ns - start_ns >= min_outside_ops_ns()
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

phases AS (
    SELECT l.phase, sum(l.idle_ns - o.overlap_ns)::BIGINT AS idle_ns
    FROM late AS l
    INNER JOIN interval_overlap('late', 'outside_ops') AS o USING (id)
    INNER JOIN launched AS w USING (phase)
    ANTI JOIN long_call_gap AS c ON l.trace_id = c.trace_id AND l.gap_id = c.gap_id
    WHERE l.phase NOT IN ('data', 'other') AND w.graph_count * 2 < w.work_count
    GROUP BY l.phase
    HAVING
        sum(l.idle_ns - o.overlap_ns) > 0.01 * (SELECT sum(window_ns) FROM device_windows)
),

in_use AS (
    SELECT
        *,
        is_training AND is_cuda AND NOT is_compiled AND NOT has_graphs AND is_marked AND is_of_all
            AS may_be_captured
    FROM (
        SELECT
            EXISTS(SELECT 1 FROM compiled_regions) AS is_compiled,
            EXISTS(SELECT 1 FROM launch WHERE regexp_matches(name, '^(cuda|cu[A-Z]|hip)'))
                AS is_cuda,
            coalesce((SELECT sum(graph_count) FROM launched), 0) > 0 AS has_graphs,
            EXISTS(SELECT 1 FROM launched WHERE phase = 'backward') AS is_training,
            EXISTS(SELECT 1 FROM step_ranges) AS is_marked,
            EXISTS(SELECT 1 FROM phases WHERE phase <> 'optimizer') AS is_of_all
    ) AS seen
),

-- If Dynamo regions are recorded, select only these: the forward CompiledFunction is nested in
-- them.
region AS (
    SELECT string_agg(format('range={} x0-0.1', name), '; ' ORDER BY name) AS change
    FROM (
        SELECT DISTINCT
            if(starts_with(e.name, 'Torch-'), 'Torch-Compiled?Region*', e.name) AS name,
            bool_or(starts_with(e.name, 'Torch-')) OVER () AND e.name = 'CompiledFunction'
                AS is_inside
        FROM compiled_regions AS r
        INNER JOIN event AS e ON r.trace_id = e.trace_id AND r.region_id = e.event_id
    ) AS named
    WHERE NOT is_inside
),

waits AS (
    SELECT
        count(*) AS wait_count,
        count(*) / nullif(count(DISTINCT trace_id || '/' || step), 0) AS step_wait_count,
        (
            SELECT string_agg(DISTINCT coalesce(python_line, op, call), ', ')
            FROM (
                FROM sync_waits WHERE wait_count >= step_count ORDER BY wait_count DESC LIMIT 3
            ) AS longest
        ) AS places
    FROM graph_breaks
)

SELECT
    format(
        'The GPU is idle for {}{} because the CPU launches kernels late ({}{})',
        in_ms(any_value(t.idle_ns)), of_ranks(),
        string_agg(
            format('{} in {}', in_ms(p.idle_ns), p.phase), ', ' ORDER BY p.idle_ns DESC, p.phase
        ),
        if(
            any_value(t.idle_ns) > sum(p.idle_ns),
            format(
                ', and {} in other phases, long calls, or outside ops',
                in_ms(any_value(t.idle_ns) - sum(p.idle_ns))
            ), ''
        )
    ) AS what,
    'GPU waits for kernel launches (CPU-bound)' AS place,
    CASE
        WHEN any_value(u.may_be_captured) THEN 'graph on'
        WHEN any_value(u.is_cuda AND u.is_compiled) THEN any_value(r.change)
        ELSE
            string_agg(
                format('host phase={} x0-0.1', p.phase), '; ' ORDER BY p.idle_ns DESC, p.phase
            )
    END AS change,
    sum(p.idle_ns)::BIGINT AS cost_ns,
    CASE
        WHEN NOT any_value(u.is_cuda)
            THEN
                'Launch fewer, larger kernels (torch.compile, fused ops), capture a graph with '
                || 'the device runtime, or use a larger batch'
        -- Only for serving engines: a plain generate() loop also has decode and prefill phases.
        WHEN
            bool_or(p.phase IN ('decode', 'prefill', 'mixed', 'generation'))
            AND NOT EXISTS (FROM generating_launch)
            THEN
                'Capture CUDA graphs for the batch sizes that occur (vLLM: no enforce_eager; '
                || 'SGLang: --cuda-graph-max-bs; LightLLM: no --disable_cudagraph), or serve '
                || 'larger batches'
        WHEN bool_and(p.phase = 'optimizer')
            THEN
                'Capture the optimizer step in a CUDA graph (capturable=True), or use a larger '
                || 'batch'
        WHEN any_value(u.has_graphs)
            THEN
                'Capture the remaining launches in CUDA graphs as well (no graph breaks, static '
                || 'shapes), or use a larger batch'
        WHEN any_value(u.is_compiled)
            THEN
                'Capture CUDA graphs of the compiled code (mode="reduce-overhead"), or use a '
                || 'larger batch'
        WHEN NOT any_value(u.is_training)
            THEN
                'Use torch.compile(model, mode="reduce-overhead") with static shapes (for '
                || 'generation, a static KV cache), or a larger batch'
        ELSE
            'Capture the training step in a CUDA graph, use torch.compile(model, '
            || 'mode="reduce-overhead"), or increase the batch size'
    END
    || if(
        any_value(u.is_cuda AND w.wait_count > 0),
        format(
            '. First remove the GPU syncs ({:.0f} per step{}): a CUDA graph cannot contain them.',
            any_value(w.step_wait_count), coalesce(': ' || any_value(w.places), '')
        ), ''
    ) AS remedy,
    'tracekit query idle_causes TRACE' AS evidence
FROM phases AS p
CROSS JOIN in_use AS u
CROSS JOIN (SELECT sum(idle_ns)::BIGINT AS idle_ns FROM late) AS t
CROSS JOIN region AS r
CROSS JOIN waits AS w
HAVING count(*) > 0
