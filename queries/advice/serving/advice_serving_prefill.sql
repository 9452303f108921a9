-- Prefill steps that delay decoding requests.
-- A mixed step delays the requests that decode in it. A prefill-only step delays the requests that decode before and
-- after it. If prefill steps take three times as long as decode steps, the advice suggests smaller chunks. If chunks
-- are already small but delays exceed a third of the time, it suggests separate prefill engines.
--
-- Kind:     advice
-- Scope:    run
-- Input:    serving_step_ranges

WITH steps AS (
    SELECT
        trace_id, phase, prefill_token_count,
        if(
            lead(decode_request_count) OVER later > 0, next_start_ns(trace_id, ts_ns, step), end_ns
        ) - ts_ns AS took_ns,
        if(
            decode_request_count > 0, decode_request_count,
            least(
                lag(decode_request_count, 1, 0) OVER later,
                lead(decode_request_count, 1, 0) OVER later
            )
        ) AS delayed_count
    FROM serving_step_ranges
    WHERE prefill_token_count IS NOT NULL AND decode_request_count IS NOT NULL
    WINDOW later AS (PARTITION BY trace_id ORDER BY ts_ns, step)
),

decoding AS (
    SELECT trace_id, median(took_ns) AS decode_ns
    FROM steps
    WHERE phase = 'decode' AND delayed_count > 0
    GROUP BY trace_id
    HAVING count(*) >= 3
),

delay AS (
    SELECT
        s.trace_id, d.decode_ns,
        count(*) FILTER (s.prefill_token_count > 0) AS read_count,
        median(s.took_ns) FILTER (s.prefill_token_count > 0) AS read_ns,
        median(s.prefill_token_count) FILTER (s.prefill_token_count > 0) AS token_count,
        max(s.delayed_count) AS delayed_count,
        sum((s.took_ns - d.decode_ns) * s.delayed_count) FILTER (s.prefill_token_count > 0)
            AS delay_ns,
        sum(s.took_ns * s.delayed_count) AS all_ns
    FROM steps AS s
    INNER JOIN decoding AS d USING (trace_id)
    WHERE s.delayed_count > 0
    GROUP BY ALL
    HAVING read_count >= 2
),

longest AS (
    SELECT
        h.*, r.load_concurrency,
        h.read_ns >= 3 * h.decode_ns AS is_long,
        greatest(
            16, 2 * h.delayed_count, h.token_count / 8,
            pow(
                2,
                round(
                    log2(
                        h.token_count * h.decode_ns
                        / nullif(greatest(h.read_ns - h.decode_ns, 0), 0)
                    )
                )
            )
        )::BIGINT AS chunk
    FROM delay AS h
    INNER JOIN trace AS t USING (trace_id)
    LEFT JOIN run AS r USING (run_id)
    ORDER BY h.delay_ns DESC, h.trace_id
    LIMIT 1
)

SELECT
    format(
        '{} prefill steps (median: {} tokens, {}) delay up to {} decoding requests; a decode '
        || 'step alone takes {}', read_count, token_count::BIGINT, in_ms(read_ns), delayed_count,
        in_ms(decode_ns)
    ) AS what,
    'decoding waits for prefill' || if(is_long, ': tokens per step', '') AS place,
    if(is_long, format('batch tokens={}', chunk), 'prefill apart') AS change,
    delay_ns::BIGINT AS cost_ns,
    if(
        is_long,
        format(
            'Use chunked prefill with at most {} tokens per step (vLLM '
            || '--max-num-batched-tokens, SGLang --chunked-prefill-size with --enable-mixed-chunk, '
            || 'LightLLM --chunked_prefill_size, collect --max-batch-tokens)', chunk
        ),
        'Use separate prefill engines (vLLM --kv-transfer-config, SGLang '
        || '--disaggregation-mode). They need more devices, which could instead share the requests.'
    ) AS remedy,
    'tracekit query serving_steps TRACE' AS evidence
FROM longest
WHERE
    if(
        is_long, delay_ns > 0.05 * all_ns AND chunk <= token_count / 2,
        delay_ns > 0.33 * all_ns AND load_concurrency IS NULL
    )
