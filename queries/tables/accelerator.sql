-- Which kind of accelerator did each trace record?
-- cpu where the trace has no work of an accelerator: then the CPU's own ops are the device work.
--
-- Kind:     table
-- Requires: event_category
-- Columns:
--   trace_id     INTEGER  the trace
--   accelerator  VARCHAR  cuda, hip, xpu, mtia, hpu or cpu

SELECT
    trace.trace_id,
    CASE
        WHEN NOT coalesce(bool_or(is_device_work(event.category)), FALSE) THEN 'cpu'
        WHEN bool_or(is_launch_call(event.category) AND event.name LIKE 'hip%') THEN 'hip'
        WHEN bool_or(event.category LIKE 'xpu%') THEN 'xpu'
        WHEN bool_or(event.category LIKE 'mtia%') THEN 'mtia'
        WHEN bool_or(event.category = 'hpu_op') THEN 'hpu'
        ELSE 'cuda'
    END AS accelerator
FROM trace
LEFT JOIN event ON trace.trace_id = event.trace_id
GROUP BY trace.trace_id
ORDER BY trace.trace_id
