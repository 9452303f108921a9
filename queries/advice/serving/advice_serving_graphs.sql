-- Decode steps that run without a CUDA graph while others use one.
-- Engines capture graphs only for some batch sizes and run other sizes op by op.
--
-- Kind:     advice
-- Scope:    run
-- Input:    serving_step_ranges

WITH graphs AS (
    SELECT l.trace_id, s.step
    FROM launch AS l
    ASOF INNER JOIN serving_step_ranges AS s ON l.trace_id = s.trace_id AND l.ts_ns >= s.ts_ns
    WHERE l.name IN ('cudaGraphLaunch', 'cuGraphLaunch', 'hipGraphLaunch') AND l.ts_ns < s.end_ns
    GROUP BY ALL
),

decoding AS (
    SELECT
        s.trace_id, s.request_count,
        g.step IS NOT NULL AS has_graph,
        sum(w.idle_ns) AS idle_ns
    FROM serving_step_ranges AS s
    INNER JOIN serving_step_work AS w USING (trace_id, step)
    LEFT JOIN graphs AS g USING (trace_id, step)
    WHERE s.phase = 'decode' AND w.kernel_count > 0
    GROUP BY s.trace_id, s.step, s.request_count, has_graph
),

eager AS (
    SELECT
        count(*) AS step_count,
        count(*) FILTER (NOT has_graph) AS eager_count,
        min(request_count) FILTER (NOT has_graph) AS least_count,
        max(request_count) FILTER (NOT has_graph) AS most_count,
        sum(idle_ns) FILTER (NOT has_graph)::BIGINT AS idle_ns
    FROM decoding
)

SELECT
    format(
        '{} of {} decode steps run without a CUDA graph, with {} to {} requests; the GPU is '
        || 'idle for {} in them',
        eager_count, step_count, least_count, most_count, in_ms(idle_ns)
    ) AS what,
    'decode steps without a CUDA graph' AS place,
    'host phase=decode x0-0.1' AS change,
    idle_ns AS cost_ns,
    format(
        'Capture graphs for up to {} requests (vLLM --compilation-config '
        || 'cudagraph_capture_sizes, SGLang --cuda-graph-max-bs, LightLLM --graph_max_batch_size)',
        most_count
    ) AS remedy,
    'tracekit query serving_steps TRACE' AS evidence
FROM eager
WHERE eager_count < step_count AND idle_ns > 0
