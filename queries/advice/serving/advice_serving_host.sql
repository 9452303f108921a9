-- Host work of a serving engine that keeps the GPU idle, by stage.
-- Covers scheduling, input preparation, sampling, token processing, and detokenization. Stages are recognized by
-- functions of vLLM, SGLang, LightLLM, and transformers, and by tracekit's ranges `tk/stage`.
--
-- Kind:     advice
-- Scope:    run

WITH stage (stage, pattern, remedy) AS (
    VALUES
    (
        'scheduling',
        '^tk/stage/schedule$|vllm/v1/core/sched/\w+\.py\(\d+\): (schedule|update_from_output)$'
        || '|sglang/srt/managers/scheduler\.py\(\d+\): (get_next_batch_to_run|recv_requests)$'
        || '|lightllm/server/router/manager\.py\(\d+\): \w+$'
        || '|continuous_batching/scheduler\.py\(\d+\): schedule_batch$',
        'Schedule while the GPU computes (vLLM --async-scheduling, SGLang without '
        || '--disable-overlap-schedule, transformers use_async_batching), or use fewer requests '
        || 'per batch'
    ),
    (
        'input preparation',
        '^tk/stage/prepare$|vllm/v1/worker/\w+\.py\(\d+\): (_prepare_inputs|_update_states)$'
        || '|sglang/srt/managers/schedule_batch\.py\(\d+\): prepare_for_(extend|decode)$',
        'Prepare the next step while the GPU computes (vLLM --async-scheduling, SGLang without '
        || '--disable-overlap-schedule, transformers use_async_batching)'
    ),
    (
        'sampling',
        'vllm/v1/sample/sampler\.py\(\d+\): forward$|sglang/srt/layers/sampler\.py\(\d+\): forward$'
        || '|generation/logits_process\.py\(\d+\): __call__$'
        || '|continuous_batching/\w+\.py\(\d+\): _sample$',
        'Avoid penalties, logprobs, grammars, and logits processors in Python where requests do '
        || 'not need them; sample on the device'
    ),
    (
        'token processing',
        '^tk/stage/update$|sglang/srt/managers/\w+\.py\(\d+\): process_batch_result\w*$'
        || '|vllm/v1/engine/output_processor\.py\(\d+\): process_outputs$',
        'Avoid stop strings and callbacks on the engine thread; send tokens in larger chunks'
    ),
    (
        'detokenization',
        'vllm/v1/engine/detokenizer\.py\(\d+\): \w+$|detokenizer_manager\.py\(\d+\): \w+$'
        || '|tokenization_utils\w*\.py\(\d+\): (batch_)?decode$',
        'Detokenize in a separate process with a fast tokenizer (SGLang --stream-interval; '
        || 'vLLM: more API servers, --api-server-count), or once at the end of an answer'
    ),
    (
        'another engine process',
        'vllm/distributed/device_communicators/shm_broadcast\.py\(\d+\): acquire_read$',
        'Look at the engine process that schedules: VLLM_ENABLE_V1_MULTIPROCESSING=0 records it '
        || 'in the same trace, and py-spy shows its Python stack'
    )
),

named AS (
    SELECT DISTINCT e.name, s.stage, s.remedy
    FROM (
        SELECT DISTINCT name
        FROM event
        WHERE
            (is_annotation(category) OR is_python_call(category))
            -- First apply one combined pattern, and then the pattern of each stage to the matches.
            AND regexp_matches(
                name,
                '^tk/stage/|vllm/|sglang/|lightllm/|continuous_batching/|logits_process|detokenizer'
                || '|tokenization_utils'
            )
    ) AS e
    INNER JOIN stage AS s ON regexp_matches(e.name, s.pattern)
),

calls AS MATERIALIZED (
    SELECT
        (e.trace_id, e.pid, e.tid) AS part,
        e.event_id AS id, e.trace_id, e.name, n.stage, n.remedy,
        e.ts_ns AS start_ns, e.ts_ns + e.dur_ns AS end_ns
    FROM event AS e
    INNER JOIN named AS n USING (name)
    WHERE e.dur_ns > 0
),

gaps AS MATERIALIZED (
    SELECT
        (trace_id, pid, coalesce(busy_tid, tid)) AS part, start_ns, start_ns + host_ns AS end_ns
    FROM idle_gap
    WHERE host_ns > 0 AND cause NOT IN ('not_recorded', 'profiler')
),

waits AS (
    SELECT
        c.trace_id, c.stage, c.name, c.remedy,
        sum(o.overlap_ns)::BIGINT AS wait_ns,
        count(*) FILTER (o.overlap_ns > 0) AS call_count
    FROM interval_overlap('calls', 'gaps') AS o
    INNER JOIN calls AS c USING (id)
    GROUP BY ALL
),

longest AS (
    SELECT *
    FROM waits
    WHERE wait_ns > 0
    QUALIFY row_number() OVER (PARTITION BY trace_id, stage ORDER BY wait_ns DESC, name) = 1
)

SELECT
    format(
        'The GPU is idle for {} in {} of {}', in_ms(l.wait_ns), count_of(l.call_count, 'call'),
        l.name
    ) AS what,
    at_rank(t.rank, 'GPU waits for ' || l.stage) AS place,
    if(
        l.stage = 'another engine process', NULL,
        'range=' || chosen_name(l.name) || rank_term(t.rank) || ' x0-0.1'
    ) AS change,
    l.wait_ns AS cost_ns,
    l.remedy,
    'tracekit query idle_gaps TRACE' AS evidence
FROM longest AS l
INNER JOIN trace AS t USING (trace_id)
ORDER BY cost_ns DESC, place
LIMIT 4
