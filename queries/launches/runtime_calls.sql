-- Which runtime or driver calls put work on a device?
--
-- Kind:     view
-- Columns:
--   trace_id     INTEGER -> trace            the trace
--   event_id     BIGINT -> event             the call
--   pid          BIGINT                      process id
--   tid          BIGINT -> thread(pid, tid)  thread id
--   name         VARCHAR                     the call
--   ts_ns        BIGINT                      start, ns
--   dur_ns       BIGINT                      duration, ns
--   correlation  BIGINT                      links its device events; graph replays share one

SELECT trace_id, event_id, pid, tid, name, ts_ns, dur_ns, correlation
FROM event
WHERE is_launch_call(category) AND correlation IS NOT NULL
