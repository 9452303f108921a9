-- Ranges marked by the program on the CPU (record_function, NVTX).
-- Excludes the corresponding gpu_user_annotation spans on the GPU, which would count work twice.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace
--   event_id  BIGINT -> event  range
--   pid BIGINT, tid BIGINT -> thread(pid, tid), name VARCHAR, ts_ns BIGINT, dur_ns BIGINT

SELECT trace_id, event_id, pid, tid, name, ts_ns, dur_ns
FROM event
WHERE is_annotation(category)
