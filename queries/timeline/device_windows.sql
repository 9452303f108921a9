-- From when to when was each device at work, and for how long in all?
-- The window of a device: from the start of its first event to the end of its last.
--
-- Kind:     view
-- Columns:
--   trace_id     INTEGER -> trace  the trace
--   rank         INTEGER           global rank
--   device       VARCHAR           number of the device, or cpu
--   start_ns     BIGINT            start of the first device event, ns
--   end_ns       BIGINT            end of the last device event, ns
--   window_ns    BIGINT            between the two, ns
--   busy_ns      BIGINT            when anything ran, ns
--   event_count  BIGINT            device events

SELECT
    trace.trace_id, trace.rank, device_events.device,
    min(device_events.ts_ns) AS start_ns,
    max(device_events.end_ns) AS end_ns,
    max(device_events.end_ns) - min(device_events.ts_ns) AS window_ns,
    sum(device_events.wall_ns)::BIGINT AS busy_ns,
    count(*) AS event_count
FROM device_events
INNER JOIN trace USING (trace_id)
GROUP BY trace.trace_id, trace.rank, device_events.device
