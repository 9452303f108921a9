-- Marked steps of a serving engine, with the batch of each.
-- Sources, in order of preference: tracekit's tk/batch inside tk/step, vLLM's
-- execute_context_N(tokens)_generation_M(tokens), SGLang's step[… bs=… toks=…], engine_step of older collectors,
-- tk/step with tk/phase (no batch), and LightLLM's Python calls. Each trace uses one source. Values that the name does
-- not contain are NULL.
--
-- Kind:     table
-- Input:    event WHERE is_annotation(category) AND (name IN ('tk/phase/prefill', 'tk/phase/decode',
--           'tk/phase/mixed') OR starts_with(name, 'tk/batch/') OR starts_with(name, 'execute_') OR
--           starts_with(name, 'step[') OR starts_with(name, 'engine_step ')) OR (category, name) IN (SELECT
--           (category, name) FROM range_marker WHERE means = 'frame')
-- Columns:
--   trace_id  INTEGER -> trace
--   step    BIGINT   step number: from tk/step, or else from 0 in time order
--   name    VARCHAR  name of the range that describes the batch
--   source  VARCHAR  tk, vllm, sglang, engine_step, or lightllm
--   phase   VARCHAR  prefill, decode, mixed, or verify (speculative decoding)
--   ts_ns   BIGINT   start on the host, ns
--   dur_ns  BIGINT   duration on the host, ns
--   end_ns  BIGINT   end on the host, ns
--   prefill_request_count BIGINT, prefill_token_count BIGINT, decode_request_count BIGINT
--   decode_token_count BIGINT, request_count BIGINT
-- Invariant: dur_ns = end_ns - ts_ns AND phase IN ('prefill', 'mixed', 'decode', 'verify')
-- Invariant: prefill_request_count + decode_request_count IS NULL OR request_count IS NOT NULL

WITH step_range AS MATERIALIZED (
    SELECT
        trace_id, event_id, pid, tid, name, ts_ns,
        ts_ns + dur_ns AS end_ns,
        CASE
            WHEN starts_with(name, 'tk/step/') THEN 'tk/step'
            WHEN starts_with(name, 'tk/phase/') THEN 'tk/phase'
            WHEN starts_with(name, 'tk/batch/') THEN 'tk/batch'
            WHEN starts_with(name, 'execute_') THEN 'vllm'
            WHEN starts_with(name, 'step[') THEN 'sglang'
            ELSE 'engine_step'
        END AS form
    FROM event
    WHERE
        is_annotation(category)
        AND (
            regexp_matches(name, '^tk/step/\d{1,18}$')
            OR name IN ('tk/phase/prefill', 'tk/phase/decode', 'tk/phase/mixed')
            OR regexp_matches(name, '^tk/batch/prefill_\d+\(\d+\)_decode_\d+\(\d+\)$')
            OR regexp_matches(name, '^execute_(?:\d+_)?context_\d+(?:\(.*\))?_generation_\d+')
            OR regexp_matches(
                name, '(?i)^step\[(?:EXTEND|PREFILL|DECODE|MIXED|TARGET_VERIFY)\b.*\bbs=\d+'
            )
            OR regexp_matches(name, '^engine_step prefill_reqs=\d+ .*decode_reqs=\d+')
        )
),

-- A range inside tk/step belongs to the last step that started before it on its thread.
tk_step AS (
    SELECT
        trace_id, event_id, pid, tid, name, ts_ns, end_ns,
        regexp_extract(name, '(\d+)$', 1)::BIGINT AS step
    FROM step_range
    WHERE form = 'tk/step'
),

tk_inside AS (
    SELECT
        m.trace_id, s.event_id,
        max(m.name) FILTER (m.form = 'tk/batch') AS batch_name,
        max(m.name) FILTER (m.form = 'tk/phase') AS phase_name
    FROM step_range AS m
    ASOF INNER JOIN tk_step AS s
        ON m.trace_id = s.trace_id AND m.pid = s.pid AND m.tid = s.tid AND m.ts_ns >= s.ts_ns
    WHERE m.form IN ('tk/batch', 'tk/phase') AND m.ts_ns <= s.end_ns
    GROUP BY m.trace_id, s.event_id
),

frame AS (
    SELECT e.trace_id, e.event_id, e.name, e.ts_ns, e.ts_ns + e.dur_ns AS end_ns, k.phase
    FROM event AS e
    INNER JOIN range_marker AS k USING (category, name)
    WHERE k.means = 'frame' AND k.layer = 'begin' AND k.phase IN ('prefill', 'decode')
),

sglang_batch AS (
    SELECT
        *,
        CASE upper(regexp_extract(name, '^step\[(\w+)', 1))
            WHEN 'EXTEND' THEN 'prefill'
            WHEN 'PREFILL' THEN 'prefill'
            WHEN 'DECODE' THEN 'decode'
            WHEN 'TARGET_VERIFY' THEN 'verify'
            ELSE 'mixed'
        END AS phase,
        try_cast(regexp_extract(name, '\bbs=(\d+)', 1) AS BIGINT) AS batch,
        try_cast(regexp_extract(name, '\btoks=(\d+)', 1) AS BIGINT) AS tokens,
        try_cast(regexp_extract(name, '\b(?:c_sq|ext)=(\d+)', 1) AS BIGINT) AS prefill_tokens,
        try_cast(regexp_extract(name, '\b(?:g|dec)=(\d+)', 1) AS BIGINT) AS decodes,
        try_cast(regexp_extract(name, '\b(?:g_sq|dec)=(\d+)', 1) AS BIGINT) AS decode_tokens
    FROM step_range
    WHERE form = 'sglang'
),

stated_batch AS (
    SELECT
        s.trace_id, s.event_id, s.step,
        coalesce(i.batch_name, i.phase_name) AS name,
        'tk' AS source,
        if(i.batch_name IS NULL, 5, 1) AS form_rank,
        regexp_extract(i.phase_name, '(\w+)$', 1) AS stated_phase,
        s.ts_ns, s.end_ns,
        regexp_extract_all(coalesce(i.batch_name, ''), '\d+')::BIGINT[] AS numbers
    FROM tk_step AS s
    INNER JOIN tk_inside AS i USING (trace_id, event_id)
    UNION ALL
    SELECT
        trace_id, event_id, NULL AS step, name, form AS source,
        if(form = 'vllm', 2, 4) AS form_rank,
        NULL AS stated_phase, ts_ns, end_ns,
        CASE form
            WHEN 'vllm'
                THEN [
                    try_cast(regexp_extract(name, 'context_(\d+)', 1) AS BIGINT),
                    try_cast(regexp_extract(name, 'context_\d+\((?:sq)?(\d+)', 1) AS BIGINT),
                    try_cast(regexp_extract(name, 'generation_(\d+)', 1) AS BIGINT),
                    try_cast(regexp_extract(name, 'generation_\d+\((?:sq)?(\d+)', 1) AS BIGINT)
                ]
            ELSE [
                try_cast(regexp_extract(name, 'prefill_reqs=(\d+)', 1) AS BIGINT),
                try_cast(regexp_extract(name, 'prefill_tokens=(\d+)', 1) AS BIGINT),
                try_cast(regexp_extract(name, 'decode_reqs=(\d+)', 1) AS BIGINT),
                try_cast(regexp_extract(name, 'decode_reqs=(\d+)', 1) AS BIGINT)
            ]
        END AS numbers
    FROM step_range
    WHERE form IN ('vllm', 'engine_step')
    UNION ALL
    SELECT
        trace_id, event_id, NULL AS step, name,
        'sglang' AS source,
        3 AS form_rank,
        phase AS stated_phase, ts_ns, end_ns,
        CASE phase
            WHEN 'prefill' THEN [batch, coalesce(tokens, prefill_tokens), 0, 0]
            WHEN 'decode' THEN [0, 0, batch, coalesce(tokens, decode_tokens, batch)]
            WHEN 'verify' THEN [0, 0, batch, coalesce(tokens, decode_tokens)]
            ELSE [batch - decodes, prefill_tokens, decodes, decode_tokens, batch]
        END AS numbers
    FROM sglang_batch
    UNION ALL
    SELECT
        trace_id, event_id, NULL AS step, name,
        'lightllm' AS source,
        6 AS form_rank,
        phase AS stated_phase, ts_ns, end_ns,
        []::BIGINT[] AS numbers
    FROM frame
),

counted_batch AS (
    SELECT
        *,
        numbers[1] AS prefill_request_count,
        numbers[2] AS prefill_token_count,
        numbers[3] AS decode_request_count,
        numbers[4] AS decode_token_count
    FROM stated_batch
    QUALIFY form_rank = min(form_rank) OVER (PARTITION BY trace_id)
)

SELECT
    trace_id,
    coalesce(step, row_number() OVER (PARTITION BY trace_id ORDER BY ts_ns, event_id) - 1) AS step,
    name, source, CASE
        WHEN stated_phase <> '' THEN stated_phase
        WHEN prefill_request_count > 0 AND decode_request_count > 0 THEN 'mixed'
        WHEN prefill_request_count > 0 THEN 'prefill'
        ELSE 'decode'
    END AS phase, ts_ns,
    end_ns - ts_ns AS dur_ns,
    end_ns, prefill_request_count, prefill_token_count, decode_request_count, decode_token_count,
    coalesce(prefill_request_count + decode_request_count, numbers[5], numbers[1])
        AS request_count
FROM counted_batch
