-- Device event that owns each part of a device window: wall_intervals('work').
-- The intervals tile the window. Compute takes precedence over communication, and communication over copies; among
-- events of one kind, the one that started first takes precedence. Lengths add up to wall_ns of device_events.
-- Intervals without an event are idle time.
--
-- Kind:     function
-- Params:
--   work  VARCHAR  relation with the rows of device_events or attributed_events
-- Columns:
--   trace_id INTEGER, device VARCHAR, start_ns BIGINT, end_ns BIGINT
--   event_id  BIGINT  device event; NULL for idle time
--   piece BIGINT, kind VARCHAR

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
