-- Runtime and driver calls with a correlation ID.
--
-- Kind:     view
-- Columns:
--   trace_id     INTEGER -> trace
--   event_id     BIGINT -> event  call
--   pid BIGINT, tid BIGINT -> thread(pid, tid)
--   name         VARCHAR          name of the call
--   ts_ns BIGINT, dur_ns BIGINT
--   correlation  BIGINT           correlation ID, also of the device events that the call launches (of a graph, all)

SELECT trace_id, event_id, pid, tid, name, ts_ns, dur_ns, correlation
FROM event
WHERE is_launch_call(category) AND correlation IS NOT NULL
