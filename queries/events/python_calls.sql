-- Which Python functions ran?
-- Recorded with with_stack. A name is `file(line): function`, or `nn.Module: Class_N` for a module's call.
--
-- Kind:     view
-- Columns:
--   trace_id          INTEGER -> trace            the trace
--   event_id          BIGINT -> event             the call
--   pid               BIGINT                      process id
--   tid               BIGINT -> thread(pid, tid)  thread id
--   name              VARCHAR                     the function
--   ts_ns             BIGINT                      start, ns
--   dur_ns            BIGINT                      duration, ns
--   python_id         BIGINT                      id of the call
--   python_parent_id  BIGINT                      id of the calling call
--   python_module_id  BIGINT                      number of the nn.Module among those of its class

SELECT
    trace_id, event_id, pid, tid, name, ts_ns, dur_ns, python_id, python_parent_id, python_module_id
FROM event
WHERE is_python_call(category)
