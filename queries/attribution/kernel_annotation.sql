-- What do kernels say of themselves: module, phase and op?
-- From torch 2.12 on (torch.cuda.graph_annotations), scopes around captured work come back on every replay: the kernel
-- carries module_fqn, name, autograd_phase and the arguments of its collective. They are recorded, not inferred, and say
-- more than the surroundings of the launch, which are those of the whole graph. Kernels in traces of Triton's Proton,
-- which has no launches, name the scopes that they are in.
--
-- Kind:     table
-- Input:    launch WHERE contains(name, 'GraphLaunch') UNION ALL SELECT 1 FROM event_kind WHERE category = 'scope'
-- Columns:
--   trace_id   INTEGER -> trace             the trace
--   event_id   BIGINT -> event              the device event
--   module_id  INTEGER -> module.module_id  module of its scope; NULL where it names none
--   phase      VARCHAR                      backward, forward, recompute or optimizer; NULL where it says none
--   op_name    VARCHAR                      name of its scope, where that is no module

WITH marked AS (
    SELECT
        trace_id, event_id,
        annotated_module(args) AS module_name,
        json_extract_string(args, ['$.module_fqn', '$.autograd_phase', '$.name']) AS said
    FROM event
    WHERE
        is_device_work(category)
        AND regexp_matches(args, '"(?:module_fqn|autograd_phase|name|call_stack)"')
)

SELECT
    k.trace_id, k.event_id, m.module_id, CASE
        WHEN regexp_matches(k.said[2], '(?i)^(?:backward|forward|optimizer)$') THEN lower(k.said[2])
        WHEN regexp_matches(k.said[2], '(?i)^recomput') THEN 'recompute'
    END AS phase,
    nullif(k.said[3], k.said[1]) AS op_name
FROM marked AS k
LEFT JOIN module AS m
    ON k.trace_id = m.trace_id AND m.source = 'tk' AND k.module_name = m.name
ORDER BY k.trace_id, k.event_id
