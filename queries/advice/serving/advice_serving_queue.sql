-- Waiting time of requests before they run, by cause.
-- The cause is the client's concurrency limit, the engine's batch limit, or a full KV cache (the tokens of running
-- requests fill at least 80 % of it). A request counts as running from its first token to its end. Limits come from the
-- manifest or the server's command line. In closed-loop and burst loads, the client is not considered as a cause.
--
-- Kind:     advice
-- Scope:    runs
-- Input:    request

WITH engine AS MATERIALIZED (
    SELECT
        run_id, load_concurrency,
        coalesce(load_arrival, 'burst') <> 'burst' AS is_open,
        coalesce(
            try_cast(extra ->> '$.engine.max_requests_per_batch' AS BIGINT),
            try_cast(
                regexp_extract(
                    load_server ->> '$.launch',
                    '--(?:max-num-seqs|max-running-requests|running_max_req_size)[ =](\d+)', 1
                ) AS BIGINT
            )
        ) AS batch_limit,
        try_cast(extra ->> '$.engine.num_blocks' AS BIGINT)
        * coalesce(try_cast(extra ->> '$.engine.page_size' AS BIGINT), 1) AS cache_token_count
    FROM run
),

measured AS MATERIALIZED (
    SELECT
        run_id, arrival_ns, sent_ns, end_ns, prompt_token_count, output_token_count, token_ns,
        coalesce(first_token_ns, token_ns[1]) AS first_ns
    FROM request
    WHERE NOT is_warmup AND NOT is_profiled AND end_ns >= sent_ns
),

turns AS (
    SELECT run_id, arrival_ns AS at_ns, 1 AS due, 0 AS waiting, 0 AS running, 0 AS tokens
    FROM measured
    UNION ALL
    SELECT run_id, sent_ns, 0, 1, 0, 0
    FROM measured
    UNION ALL
    SELECT run_id, first_ns, 0, -1, 1, coalesce(prompt_token_count, 0)
    FROM measured
    WHERE first_ns IS NOT NULL
    UNION ALL
    SELECT run_id, unnest(token_ns[2:]), 0, 0, 0, 1
    FROM measured
    WHERE first_ns IS NOT NULL
    UNION ALL
    SELECT
        run_id, end_ns, -1, if(first_ns IS NULL, -1, 0), if(first_ns IS NULL, 0, -1),
        if(first_ns IS NULL, 0, 1 - coalesce(prompt_token_count, 0) - greatest(len(token_ns), 1))
    FROM measured
),

summed AS (
    SELECT
        run_id, at_ns,
        sum(due) AS due, sum(waiting) AS waiting, sum(running) AS running, sum(tokens) AS tokens
    FROM turns
    GROUP BY ALL
),

time_points AS (
    SELECT
        run_id,
        next_start_ns(run_id, at_ns, 0) - at_ns AS dur_ns,
        sum(due) OVER later AS due_count,
        sum(waiting) OVER later AS waiting_count,
        sum(running) OVER later AS running_count,
        sum(tokens) OVER later AS token_count
    FROM summed
    WINDOW later AS (PARTITION BY run_id ORDER BY at_ns)
),

filled AS (
    SELECT
        m.*,
        coalesce(m.token_count >= 0.8 * e.cache_token_count, FALSE) AS is_full,
        m.due_count - m.waiting_count - m.running_count AS held_count,
        m.waiting_count + m.running_count AS sent_count
    FROM time_points AS m
    INNER JOIN engine AS e USING (run_id)
),

waited AS (
    SELECT
        e.run_id, e.is_open, e.load_concurrency, e.batch_limit, e.cache_token_count,
        max(f.due_count) AS due_count,
        max(f.sent_count) AS sent_count,
        max(f.running_count) AS running_count,
        sum(f.dur_ns * f.held_count) AS client_ns,
        sum(f.dur_ns * least(f.waiting_count, f.sent_count - e.batch_limit))
        FILTER (f.sent_count > e.batch_limit AND NOT f.is_full) AS batch_ns,
        sum(f.dur_ns * f.waiting_count)
        FILTER (f.is_full AND f.running_count < e.batch_limit) AS cache_ns,
        sum(f.dur_ns * f.due_count) AS all_ns
    FROM engine AS e
    INNER JOIN filled AS f USING (run_id)
    GROUP BY ALL
),

room AS (
    SELECT
        e.run_id,
        coalesce(
            0.85 * any_value(e.cache_token_count)
            / nullif(max(m.prompt_token_count + m.output_token_count), 0), 1e6
        )::BIGINT AS request_count
    FROM engine AS e
    INNER JOIN measured AS m USING (run_id)
    GROUP BY e.run_id
),

causes AS (
    SELECT
        w.all_ns,
        unnest([
            {
                cause: 'client',
                wait_ns: if(w.is_open AND w.load_concurrency IS NOT NULL, w.client_ns, 0),
                more: least(2 * w.load_concurrency, w.due_count, r.request_count),
                was: w.load_concurrency
            },
            {
                cause: 'batch',
                wait_ns: if(w.running_count >= w.batch_limit, w.batch_ns, 0),
                more: least(2 * w.batch_limit, w.sent_count, r.request_count),
                was: w.batch_limit
            },
            {
                cause: 'cache',
                wait_ns: w.cache_ns,
                more: 2 * w.cache_token_count,
                was: w.cache_token_count
            }
        ], recursive := TRUE)
    FROM waited AS w
    INNER JOIN room AS r USING (run_id)
)

SELECT
    format(
        'Requests wait {} in total ({:.0f} % of their time) because {}', in_ms(wait_ns),
        100.0 * wait_ns / all_ns,
        CASE cause
            WHEN 'client' THEN format('the client has at most {} in flight', was)
            WHEN 'batch' THEN format('at most {} run at once', was)
            ELSE format('the KV cache of {} tokens is full', was)
        END
    ) AS what,
    CASE cause
        WHEN 'client' THEN 'client: requests queue before sending'
        WHEN 'batch' THEN 'requests wait: limit of running requests'
        ELSE 'requests wait: full KV cache'
    END AS place,
    if(cause = 'cache', format('kv tokens={}', more), format('batch limit={}', more)) AS change,
    wait_ns::BIGINT AS cost_ns,
    CASE cause
        WHEN 'client'
            THEN format('Allow {0} requests in flight (collect --concurrency {0})', more)
        WHEN 'batch'
            THEN format(
                'Let {} requests run at once (vLLM --max-num-seqs, SGLang '
                || '--max-running-requests, LightLLM --running_max_req_size, collect '
                || '--max-batch-requests)', more
            )
        ELSE
            'Use a larger KV cache, or an 8-bit one (vLLM --gpu-memory-utilization, '
            || '--kv-cache-dtype fp8; SGLang --mem-fraction-static, --kv-cache-dtype; LightLLM '
            || '--max_total_token_num; collect --cache-blocks)'
    END AS remedy,
    if(
        cause = 'client', 'tracekit query latency TRACE --since arrival',
        'tracekit query requests TRACE'
    ) AS evidence
FROM causes
WHERE wait_ns > 0.05 * all_ns AND more > was
ORDER BY cost_ns DESC, cause
