-- Number and size of the trace files of the run.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   trace per total
-- Columns:
--   trace_count         BIGINT  number of traces
--   truncated_count     BIGINT  number of truncated traces
--   unranked_count      BIGINT  number of traces of unknown rank
--   event_count         BIGINT  number of events read, of all kinds
--   device_event_count  BIGINT  number of device events; NULL if no trace recorded them
--   rejected_count      BIGINT  number of unreadable parts
--   repaired_count      BIGINT  number of events read after repairing their text
--   file_bytes          BIGINT  size of the files, bytes
--   max_window_ns       BIGINT  longest time from the first to the last complete event of a trace, ns
-- Invariant: truncated_count <= trace_count

SELECT
    count(*) AS trace_count,
    count(*) FILTER (is_truncated) AS truncated_count,
    count(*) FILTER (rank IS NULL) AS unranked_count,
    coalesce(sum(event_count), 0)::BIGINT AS event_count,
    sum(device_event_count)::BIGINT AS device_event_count,
    coalesce(sum(rejected_count), 0)::BIGINT AS rejected_count,
    coalesce(sum(repaired_count), 0)::BIGINT AS repaired_count,
    coalesce(sum(file_bytes), 0)::BIGINT AS file_bytes,
    coalesce(max(window_ns), 0)::BIGINT AS max_window_ns
FROM trace()
HAVING count(*) > 0
