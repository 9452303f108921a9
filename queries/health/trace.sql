-- Trace files with rank, devices, and size.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank                INTEGER    global rank; NULL if unknown
--   rank_source         VARCHAR    distributedInfo, tracekit_rank, file name, or unknown
--   file                VARCHAR    file path
--   world_size          INTEGER    number of ranks of the job, if known
--   accelerator         VARCHAR    cuda, hip, xpu, mtia, hpu, npu, …, or cpu
--   is_recorded         BOOLEAN    the work of the accelerator was recorded; see analysis unrecorded
--   devices             VARCHAR[]  devices with work, and their model if known
--   file_bytes          BIGINT     size on disk, bytes
--   text_bytes          BIGINT     size of the JSON text, bytes
--   event_count         BIGINT     number of events read, of all kinds
--   complete_count      BIGINT     number of complete events (spans)
--   device_event_count  BIGINT     number of device events; NULL if not recorded
--   rejected_count      BIGINT     number of unreadable parts of the file
--   repaired_count      BIGINT     number of events read after repairing their text
--   is_truncated        BOOLEAN    the file is truncated
--   window_ns           BIGINT     time from the first to the last complete event, ns
--   execution_trace     VARCHAR    data added by an execution trace that was read with the file; NULL without one
-- View:
--   breakdown  totals=trace_totals

WITH named AS (
    SELECT
        w.trace_id,
        list(w.device || coalesce(' ' || d.name, '') ORDER BY w.device) AS devices,
        sum(w.event_count)::BIGINT AS device_event_count
    FROM device_windows AS w
    LEFT JOIN device_names() AS d ON w.trace_id = d.trace_id AND w.device = d.device
    GROUP BY w.trace_id
)

SELECT
    t.rank, t.rank_source, t.path AS file, t.world_size, a.accelerator, a.is_recorded,
    coalesce(n.devices, []) AS devices,
    t.file_bytes, t.text_bytes, t.event_count, t.complete_count,
    CASE WHEN a.is_recorded THEN coalesce(n.device_event_count, 0) END AS device_event_count,
    t.rejected_count, t.repaired_count, t.is_truncated,
    t.last_end_ns - t.first_ts_ns AS window_ns,
    t.metadata ->> '$.tracekit_execution_trace' AS execution_trace
FROM trace AS t
INNER JOIN accelerator AS a USING (trace_id)
LEFT JOIN named AS n USING (trace_id)
ORDER BY t.rank NULLS LAST, t.trace_id
