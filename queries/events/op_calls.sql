-- CPU ops.
--
-- Kind:     view
-- Columns:
--   trace_id         INTEGER -> trace
--   event_id         BIGINT -> event  op
--   pid BIGINT, tid BIGINT -> thread(pid, tid)
--   name             VARCHAR          op
--   ts_ns BIGINT, dur_ns BIGINT
--   external_id      BIGINT           ID that links launched work
--   sequence_number  BIGINT           ID that links a forward op and its autograd node
--   forward_thread   BIGINT           on a backward op, profiler thread ID of its forward op; 0 on a forward op
--   args             JSON             shapes, types, strides, and more

SELECT
    trace_id, event_id, pid, tid, name, ts_ns, dur_ns, external_id, sequence_number, forward_thread,
    args
FROM event
WHERE is_op(category)
