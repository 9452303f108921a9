-- Is attention computed in pieces?
-- Products, softmax and what lies between them write the scores to memory. Fused attention does not: what lies between
-- goes, and backward there is one product more in four. Products may get faster, as scores stay in caches: twice at most.
--
-- Kind:     advice
-- Scope:    run
-- Requires: advice_text, attributed_events, module

WITH softmax AS (
    SELECT
        coalesce(m.rollup_path, m.path) AS module,
        count(*) AS work_count,
        sum(a.dur_ns)::BIGINT AS work_ns
    FROM attributed_events AS a
    INNER JOIN module AS m USING (trace_id, module_id)
    WHERE a.class = 'softmax'
    GROUP BY ALL
),

products AS (
    SELECT
        coalesce(m.rollup_path, m.path) AS module,
        max_by(a.op_name, (a.dur_ns, a.event_id)) AS product
    FROM attributed_events AS a
    INNER JOIN module AS m USING (trace_id, module_id)
    WHERE a.class = 'gemm' AND a.op_name IN ('aten::bmm', 'aten::baddbmm', 'aten::matmul')
    GROUP BY ALL
),

chosen AS (
    -- Rolled up, a path has lost the numbers of its modules.
    SELECT *, format(' module={}*', replace(chosen_name(module), '/', '*/')) AS term
    FROM softmax
    INNER JOIN products USING (module)
)

SELECT
    format('{} softmax kernels or ops between batched products, {}', work_count, in_ms(work_ns))
        AS what,
    module AS place,
    format('attention fused{}', term) AS change,
    format('attention fused{0}; op={1}{0} x0.5', term, product) AS at_most,
    work_ns AS cost_ns,
    'torch.nn.functional.scaled_dot_product_attention, or attn_implementation="sdpa" or '
    || '"flash_attention_2" (collect --opt with F)' AS remedy,
    format('tracekit query module_classes TRACE') AS evidence
FROM chosen
WHERE work_ns > 0
ORDER BY work_ns DESC, module
LIMIT 3
