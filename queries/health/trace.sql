-- Which files are these, from which rank and device, and how much is in them?
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank            INTEGER    global rank; NULL where neither the file nor its name tells it
--   rank_source     VARCHAR    distributedInfo, tracekit_rank, file name or unknown
--   file            VARCHAR    the file
--   world_size      INTEGER    ranks of the job, where the file tells
--   accelerator     VARCHAR    cuda, hip, xpu, mtia, hpu, npu, …, or cpu, as in table accelerator
--   is_recorded     BOOLEAN    the work of the accelerator is in the file; analysis unrecorded tells why not
--   devices         VARCHAR[]  devices with work, and the product name where the file tells
--   file_bytes      BIGINT     size on disk, bytes
--   text_bytes      BIGINT     size of the JSON text, bytes
--   event_count     BIGINT     events of every kind that were read
--   complete_count  BIGINT     complete events (spans)
--   device_event_count  BIGINT  device events; NULL where they were not recorded
--   rejected_count  BIGINT     pieces of the file that could not be read
--   repaired_count  BIGINT     events that were read after mending their text
--   is_truncated    BOOLEAN    the file ends before the trace does
--   window_ns       BIGINT     from the first to the last complete event of any kind, ns
--   execution_trace  VARCHAR   what an execution trace beside it tells that it does not; NULL without one
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
