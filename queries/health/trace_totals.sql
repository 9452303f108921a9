-- How much was read in all, of all traces of the run?
--
-- Kind:     analysis
-- Scope:    run
-- Family:   trace
-- Columns:
--   trace_count         BIGINT  traces
--   truncated_count     BIGINT  of these, cut off
--   unranked_count      BIGINT  of these, whose rank is not known
--   event_count         BIGINT  events of every kind that were read
--   device_event_count  BIGINT  device events; NULL where the kernels of no trace were recorded
--   rejected_count      BIGINT  pieces that could not be read
--   repaired_count      BIGINT  events that were read after mending their text
--   file_bytes          BIGINT  size of the files, bytes
--   max_window_ns       BIGINT  the longest of the traces, first event's start to last event's end, ns
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
