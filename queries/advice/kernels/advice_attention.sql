-- Unfused attention: softmax kernels between two batched matrix multiplications.
-- A fused kernel removes the softmax, mask, and copy kernels between the two GEMMs. It also speeds up the GEMMs by up
-- to 2× because scores stay in cache and masked scores are skipped. In traces without modules, any softmax between two
-- batched GEMMs on a stream counts.
--
-- Kind:     advice
-- Scope:    run

WITH work AS (
    SELECT
        a.trace_id, a.device, a.stream, a.ts_ns, a.event_id, a.piece, a.class, a.phase, a.op_name,
        a.dur_ns,
        coalesce(m.rollup_path, m.path) AS module,
        is_gemm(a.class) AS is_product,
        is_gemm(a.class) AND a.op_name IN ('aten::bmm', 'aten::baddbmm', 'aten::matmul')
            AS is_batched
    FROM attributed_events AS a
    LEFT JOIN module AS m USING (trace_id, module_id)
    WHERE a.kind = 'compute' AND EXISTS (FROM attributed_events WHERE is_softmax(class))
),

numbered AS (
    SELECT *, count(if(is_product, 1, NULL)) OVER stream AS number
    FROM work
    WINDOW stream AS (
        PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id, piece
    )
),

sections AS (
    SELECT
        trace_id, device, stream, number,
        bool_or(is_batched) AS is_behind_batched,
        lead(bool_or(is_batched)) OVER (
            PARTITION BY trace_id, device, stream ORDER BY number
        ) AS is_before_batched,
        max(op_name) FILTER (is_batched) AS product,
        max(module) FILTER (is_batched) AS product_module,
        lead(max(module) FILTER (is_batched)) OVER (
            PARTITION BY trace_id, device, stream ORDER BY number
        ) AS next_module,
        arg_max(module, dur_ns) FILTER (is_softmax(class)) AS module,
        any_value(phase) FILTER (is_softmax(class)) AS phase,
        count(*) FILTER (is_softmax(class)) AS softmax_count,
        count(*) FILTER (NOT is_product) AS work_count,
        sum(dur_ns) FILTER (NOT is_product)::BIGINT AS work_ns
    FROM numbered
    GROUP BY trace_id, device, stream, number
),

pieces AS (
    SELECT
        module,
        -- Rolled-up paths lack module numbers, so let each part of the path match any number.
        if(
            module IS NULL, ' phase=*',
            format(' module={}*', replace(chosen_name(module), '/', '*/'))
        ) AS term,
        max(product) AS product,
        sum(softmax_count) AS softmax_count,
        sum(work_count) AS work_count,
        sum(work_ns)::BIGINT AS work_ns
    FROM sections
    -- The softmax of a loss also runs between GEMMs, but in another module than those GEMMs.
    WHERE
        softmax_count > 0
        AND is_behind_batched
        AND is_before_batched
        AND (module IS NULL OR (module = product_module AND module = next_module))
    GROUP BY module
)

SELECT
    format(
        '{:,} softmax and {:,} other kernels or ops between batched GEMMs take {}',
        softmax_count, work_count - softmax_count, in_ms(work_ns) || of_ranks()
    ) AS what,
    'unfused attention' || coalesce(' in ' || module, '') AS place,
    format('attention fused{0}; op={1}{0} x0.5-1', term, product) AS change,
    work_ns AS cost_ns,
    'Use torch.nn.functional.scaled_dot_product_attention, attn_implementation="sdpa", or '
    || '"flash_attention_2" (tracekit collect: add F to --opt)' AS remedy,
    'tracekit query ops TRACE' AS evidence
FROM pieces
WHERE work_ns > 0
ORDER BY work_ns DESC, module
LIMIT 3
