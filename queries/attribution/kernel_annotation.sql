-- Module, phase, and op recorded in the annotations of kernels.
-- Since torch 2.12 (torch.cuda.graph_annotations), kernels of graph replays have the annotations module_fqn, name, and
-- autograd_phase. They are more specific than the launch context of the graph. In traces of Triton's Proton, kernels
-- record their scopes.
--
-- Kind:     table
-- Input:    launch WHERE contains(name, 'GraphLaunch') UNION ALL SELECT 1 FROM event_kind WHERE category = 'scope'
-- Columns:
--   trace_id   INTEGER -> trace
--   event_id   BIGINT -> event              device event
--   module_id  INTEGER -> module.module_id  module of the scope; NULL if none
--   phase      VARCHAR                      backward, forward, recompute, or optimizer; NULL if none
--   op_name    VARCHAR                      name of the scope if it is not a module

WITH marked AS (
    SELECT
        trace_id, event_id,
        annotated_module(args) AS module_name,
        json_extract_string(args, ['$.module_fqn', '$.autograd_phase', '$.name']) AS texts
    FROM event
    WHERE
        is_device_work(category)
        AND regexp_matches(args, '"(?:module_fqn|autograd_phase|name|call_stack)"')
)

SELECT
    k.trace_id, k.event_id, m.module_id, CASE
        WHEN regexp_matches(k.texts[2], '(?i)^(?:backward|forward|optimizer)$')
            THEN lower(k.texts[2])
        WHEN regexp_matches(k.texts[2], '(?i)^recomput') THEN 'recompute'
    END AS phase,
    nullif(k.texts[3], k.texts[1]) AS op_name
FROM marked AS k
LEFT JOIN module AS m
    ON k.trace_id = m.trace_id AND m.source = 'tk' AND k.module_name = m.name
ORDER BY k.trace_id, k.event_id
