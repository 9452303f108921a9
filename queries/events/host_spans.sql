-- Spans of host threads, numbered in nesting order.
-- Contains Python calls, ranges, ops, and runtime calls, ordered by start. If two spans start together, the longer one
-- encloses the other. If they also end together, the order from the outside in is Python call, range, op, runtime call.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace
--   event_id  BIGINT -> event  span
--   pid BIGINT, tid BIGINT -> thread(pid, tid), category VARCHAR, name VARCHAR, ts_ns BIGINT
--   dur_ns BIGINT
--   place     BIGINT           number of the span over all threads, from 1

SELECT
    trace_id, event_id, pid, tid, category, name, ts_ns, dur_ns,
    row_number() OVER (
        ORDER BY
            trace_id, pid, tid,
            ts_ns, dur_ns DESC,
            CASE
                WHEN is_python_call(category) THEN 0
                WHEN is_annotation(category) THEN 1
                WHEN is_op(category) THEN 2
                ELSE 3
            END,
            CASE WHEN is_op(category) THEN external_id END,
            name DESC, event_id
    ) AS place
FROM event
WHERE
    is_python_call(category)
    OR is_annotation(category)
    OR is_op(category)
    OR is_launch_call(category)
