-- Is attention computed in pieces?
-- Products, softmax and what lies between them write the scores to memory. Fused attention does not: the products stay,
-- the softmax goes. Masks, scaling and dropout of the scores go too, but cannot be told from other work: the gain is a
-- lower bound.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, attributed_events, module
-- Columns:
--   what      VARCHAR  what was seen
--   place     VARCHAR  where
--   change    VARCHAR  what `tracekit predict` is asked, changes with "; " between them; NULL where it is not recorded
--   cost_ns   BIGINT   how long that took, ns; NULL where it is not known
--   remedy    VARCHAR  what to do
--   evidence  VARCHAR  the command that shows it
-- Invariant: cost_ns IS NULL OR cost_ns > 0

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
    SELECT coalesce(m.rollup_path, m.path) AS module
    FROM attributed_events AS a
    INNER JOIN module AS m USING (trace_id, module_id)
    WHERE a.class = 'gemm' AND a.op_name IN ('aten::bmm', 'aten::baddbmm', 'aten::matmul')
    GROUP BY ALL
)

SELECT
    format('{} softmax kernels or ops between batched products, {}', work_count, in_ms(work_ns))
        AS what,
    module AS place,
    -- Rolled up, a path has lost the numbers of its modules.
    format('class=softmax module={}* remove', replace(chosen_name(module), '/', '*/')) AS change,
    work_ns AS cost_ns,
    'torch.nn.functional.scaled_dot_product_attention, or attn_implementation="sdpa" or '
    || '"flash_attention_2" (collect --opt with F)' AS remedy,
    format('tracekit query module_classes TRACE') AS evidence
FROM softmax
INNER JOIN products USING (module)
WHERE work_ns > 0
ORDER BY work_ns DESC, module
LIMIT 3
