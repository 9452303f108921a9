-- Which named ranges did the program mark on the CPU?
-- From record_function and NVTX. The gpu_user_annotation spans that the profiler derives from them are left out: they
-- are no work, and would count it twice.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace            the trace
--   event_id  BIGINT -> event             the range
--   pid       BIGINT                      process id
--   tid       BIGINT -> thread(pid, tid)  thread id
--   name      VARCHAR                     its name
--   ts_ns     BIGINT                      start, ns
--   dur_ns    BIGINT                      duration, ns

SELECT trace_id, event_id, pid, tid, name, ts_ns, dur_ns
FROM event
WHERE is_annotation(category)
