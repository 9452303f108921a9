-- Calls of Python functions (recorded with with_stack).
-- Names have the form `file(line): function`, or `nn.Module: Class_N` for module calls.
--
-- Kind:     view
-- Columns:
--   trace_id          INTEGER -> trace
--   event_id          BIGINT -> event  call
--   pid BIGINT, tid BIGINT -> thread(pid, tid)
--   name              VARCHAR          function
--   ts_ns BIGINT, dur_ns BIGINT
--   python_id         BIGINT           call ID
--   python_parent_id  BIGINT           call ID of the caller
--   python_module_id  BIGINT           number of the nn.Module within its class

SELECT
    trace_id, event_id, pid, tid, name, ts_ns, dur_ns, python_id, python_parent_id, python_module_id
FROM event
WHERE is_python_call(category)
