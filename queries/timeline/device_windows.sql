-- Window of each device: start of the first device event to end of the last.
--
-- Kind:     view
-- Columns:
--   trace_id INTEGER -> trace, rank INTEGER, device VARCHAR
--   start_ns  BIGINT  start of the first device event, ns
--   end_ns    BIGINT  end of the last device event, ns
--   window_ns BIGINT, busy_ns BIGINT, event_count BIGINT

SELECT
    trace.trace_id, trace.rank, device_events.device,
    min(device_events.ts_ns) AS start_ns,
    max(device_events.end_ns) AS end_ns,
    max(device_events.end_ns) - min(device_events.ts_ns) AS window_ns,
    sum(device_events.wall_ns)::BIGINT AS busy_ns,
    count(*) FILTER (device_events.piece = 0) AS event_count
FROM device_events
INNER JOIN trace USING (trace_id)
GROUP BY trace.trace_id, trace.rank, device_events.device
