-- To which device event does each moment of a device's window belong?
-- wall_intervals('work') tiles the window of each device: a busy moment belongs to one device event, compute before comm
-- before memcpy, of each kind to the one that started first. So the lengths of an event add up to its wall_ns in table
-- device_events, and those without an event to the idle time.
--
-- Kind:     function
-- Params:
--   work  VARCHAR  name of a relation with the rows of device_events or attributed_events
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, or cpu
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns
--   event_id  BIGINT   the device event; NULL while the device is idle
--   piece     BIGINT   its piece, as in table device_events
--   kind      VARCHAR  its kind

CREATE OR REPLACE MACRO wall_intervals(work) AS TABLE (
    WITH owned AS (
        SELECT
            {trace_id: trace_id, device: device} AS part,
            CASE kind WHEN 'compute' THEN 1 WHEN 'comm' THEN 2 ELSE 3 END AS layer,
            row_number() OVER () AS id,
            least(
                owned_from_ns((trace_id, device, kind), ts_ns, end_ns, event_id), end_ns
            ) AS start_ns,
            end_ns, event_id, piece, kind
        FROM query_table(work)
    )

    SELECT p.part.trace_id, p.part.device, p.start_ns, p.end_ns, o.event_id, o.piece, o.kind
    FROM interval_layers('owned') AS p
    LEFT JOIN owned AS o ON p.id = o.id
);
