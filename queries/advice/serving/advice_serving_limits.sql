-- Preempted requests and saturated prefill steps of a serving engine.
-- A preempted request (retracted in SGLang, offloaded in transformers) is computed again. Preemption is visible only in
-- Python events. A prefill step is saturated if it processes the maximum number of tokens and the prefill continues in
-- the next step. Reported if at least three steps, and half of the prefill steps, are saturated.
--
-- Kind:     advice
-- Scope:    run

WITH sent_back AS (
    SELECT arg_max(name, name) AS name, count(*) AS call_count
    FROM event
    WHERE
        is_python_call(category)
        AND regexp_matches(
            name,
            'vllm/.*scheduler\.py\(\d+\): _preempt(_request|_by_recompute|_by_swap)$'
            || '|sglang/srt/managers/schedule_batch\.py\(\d+\): retract_decode$'
            || '|continuous_batching/offloading_manager\.py\(\d+\): _offload_to_cpu$'
        )
),

reading AS (
    SELECT
        trace_id, prefill_token_count,
        prefill_token_count + coalesce(decode_token_count, 0) AS token_count,
        lead(prefill_token_count) OVER (PARTITION BY trace_id ORDER BY ts_ns, step) > 0 AS reads_on
    FROM serving_step_ranges
    WHERE EXISTS (FROM request)
),

steps AS (
    SELECT
        most,
        count(*) AS step_count,
        count(*) FILTER (reads_on AND token_count >= 0.99 * most) AS full_count
    FROM (SELECT *, max(token_count) OVER (PARTITION BY trace_id) AS most FROM reading) AS r
    WHERE prefill_token_count > 0
    GROUP BY trace_id, most
)

SELECT
    format('{} of {}: preempted requests are computed again', count_of(call_count, 'call'), name)
        AS what,
    'preempted requests: small KV cache' AS place,
    NULL::VARCHAR AS change,
    NULL::BIGINT AS cost_ns,
    'Record a second run with a larger cache or fewer concurrent requests (vLLM '
    || '--gpu-memory-utilization, --max-num-seqs; SGLang --mem-fraction-static, '
    || '--schedule-conservativeness; collect --cache-blocks, --max-batch-requests)' AS remedy,
    'tracekit query requests TRACE' AS evidence
FROM sent_back
WHERE call_count > 0
UNION ALL BY NAME
SELECT
    format(
        '{} of {} prefill steps process {} tokens, the maximum, and the next step continues the '
        || 'prefill',
        full_count, step_count, most
    ) AS what,
    'split prefill: tokens per step' AS place,
    format('batch tokens={}', 2 * most) AS change,
    format(
        'Allow {} tokens per step (vLLM --max-num-batched-tokens, SGLang '
        || '--chunked-prefill-size, LightLLM --chunked_prefill_size, collect --max-batch-tokens)',
        2 * most
    ) AS remedy,
    'tracekit query serving_steps TRACE' AS evidence
FROM steps
WHERE full_count >= 3 AND 2 * full_count >= step_count
ORDER BY change NULLS FIRST, what
