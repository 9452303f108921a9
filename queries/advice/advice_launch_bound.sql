-- In which phases does the device wait for launches?
-- Idle time in which the host is at work, on accelerators. A captured graph leaves about a tenth of the host's time
-- there, which is assumed. Phases with less than 1 % of the window are left out.
--
-- Kind:     advice
-- Scope:    run
-- Requires: advice_text, idle_gap, attributed_events, device_windows

WITH gaps AS (
    SELECT coalesce(a.phase, 'other') AS phase, sum(g.idle_ns)::BIGINT AS idle_ns
    FROM idle_gap AS g
    LEFT JOIN attributed_events AS a
        ON
            g.trace_id = a.trace_id
            AND g.next_event_id = a.event_id
            AND g.next_piece = a.piece
    WHERE g.cause IN ('host_bound', 'launch_latency') AND g.device <> 'cpu'
    GROUP BY ALL
),

device_window AS (SELECT sum(window_ns) AS window_ns FROM device_windows),

phases AS (
    SELECT phase, idle_ns
    FROM gaps, device_window
    WHERE idle_ns > 0.01 * window_ns
)

SELECT
    'devices' || of_ranks() || ' wait for the host to launch: '
    || string_agg(
        format('{} in phase {}', in_ms(idle_ns), phase), ', ' ORDER BY idle_ns DESC, phase
    ) AS what,
    'launches of ' || string_agg(phase, ', ' ORDER BY idle_ns DESC, phase) AS place,
    string_agg(format('host phase={} x0.1', phase), '; ' ORDER BY idle_ns DESC, phase) AS change,
    string_agg(format('host phase={} remove', phase), '; ' ORDER BY idle_ns DESC, phase) AS at_most,
    sum(idle_ns)::BIGINT AS cost_ns,
    if(
        bool_or(phase IN ('decode', 'prefill', 'mixed', 'generation')),
        'capture CUDA graphs for the batch sizes that occur (vLLM: no enforce_eager; SGLang: '
        || '--cuda-graph-max-bs; LightLLM: no --disable_cudagraph), or serve larger batches',
        'torch.compile(model, mode="reduce-overhead"), torch.cuda.make_graphed_callables, a larger '
        || 'batch, and for the optimizer fused=True'
    ) AS remedy,
    'tracekit query idle_gaps TRACE --cause host_bound' AS evidence
FROM phases
HAVING count(*) > 0
