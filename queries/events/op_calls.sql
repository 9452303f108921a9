-- Which ops ran on the CPU?
--
-- Kind:     view
-- Columns:
--   trace_id         INTEGER -> trace            the trace
--   event_id         BIGINT -> event             the op
--   pid              BIGINT                      process id
--   tid              BIGINT -> thread(pid, tid)  thread id
--   name             VARCHAR                     the op
--   ts_ns            BIGINT                      start, ns
--   dur_ns           BIGINT                      duration, ns
--   external_id      BIGINT                      links what it launched
--   sequence_number  BIGINT                      links a forward op and its autograd node
--   forward_thread   BIGINT                      profiler thread id of the forward op; 0 on that op itself
--   args             JSON                        shapes, types, strides and the rest

SELECT
    trace_id, event_id, pid, tid, name, ts_ns, dur_ns, external_id, sequence_number, forward_thread,
    args
FROM event
WHERE is_op(category)
