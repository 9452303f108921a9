-- Kernels that torch.compile could fuse, grouped into chains.
-- A chain consists of consecutive element-wise, norm, reduction, softmax, and layout kernels of one stream, step, and
-- phase. Optimizer work is excluded. advice_compile and the predicted change `compile on` use these chains.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> device_events, piece BIGINT
--   chain_id BIGINT, module_id INTEGER, dur_ns BIGINT

WITH work AS (
    SELECT
        *,
        kind = 'compute'
        AND coalesce(phase <> 'optimizer', TRUE)
        AND (is_fusible(class) OR moves_only(class) OR is_softmax(class)) AS is_member
    FROM attributed_events
    WHERE device <> 'cpu'
),

numbered AS (
    SELECT
        *,
        count(if(NOT is_member, 1, NULL)) OVER (
            PARTITION BY trace_id, device, stream, step, phase ORDER BY ts_ns, event_id
        ) AS number
    FROM work
)

SELECT
    trace_id, event_id, piece,
    dense_rank() OVER (ORDER BY trace_id, device, stream, step, phase, number) AS chain_id,
    module_id, dur_ns
FROM numbered
WHERE is_member
