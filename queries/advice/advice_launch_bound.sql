-- In which phases does the device wait for launches?
-- Idle time in which the host is at work, on accelerators. A captured graph leaves about a tenth of the host's time
-- there, which is assumed.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, idle_gap, attributed_events, launch
-- Columns:
--   what      VARCHAR  what was seen
--   place     VARCHAR  where
--   change    VARCHAR  what `tracekit predict` is asked, changes with "; " between them; NULL where it is not recorded
--   cost_ns   BIGINT   the most that they can gain, ns
--   remedy    VARCHAR  what to do
--   evidence  VARCHAR  the command that shows it
-- Invariant: cost_ns > 0

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

launches AS (
    SELECT a.phase, count(DISTINCT (a.trace_id, a.launch_id)) AS launch_count
    FROM attributed_events AS a
    WHERE a.device <> 'cpu'
    GROUP BY a.phase
)

SELECT
    format(
        '{}: the device waits {} for the host, which makes {} launches', phase, in_ms(idle_ns),
        coalesce(launch_count, 0)
    ) AS what,
    'phase ' || phase AS place,
    format('host phase={} x0.1', phase) AS change,
    idle_ns AS cost_ns,
    if(
        phase IN ('decode', 'prefill', 'mixed', 'generation'),
        'capture CUDA graphs for the batch sizes that occur (vLLM: no enforce_eager; SGLang: '
        || '--cuda-graph-max-bs; LightLLM: no --disable_cudagraph), or serve larger batches',
        'torch.compile(model, mode="reduce-overhead"), torch.cuda.make_graphed_callables, or a larger '
        || 'batch; for the optimizer fused=True'
    ) AS remedy,
    'tracekit query idle_gaps TRACE --cause host_bound' AS evidence
FROM gaps
LEFT JOIN launches USING (phase)
WHERE idle_ns > 0
ORDER BY idle_ns DESC, phase
LIMIT 5
