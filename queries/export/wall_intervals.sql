-- To which device event does each moment of a device's window belong?
-- wall_intervals() tiles the window of each device: a busy moment belongs to one device event, compute before comm
-- before memcpy, of each kind to the one that started first. So the lengths of an event add up to its wall_ns in table
-- device_events, and those without an event to the idle time.
--
-- Kind:     macro
-- Requires: device_events, interval_owner
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, or cpu
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns
--   event_id  BIGINT   the device event; NULL while the device is idle
--   piece     BIGINT   its piece, as in table device_events
--   kind      VARCHAR  its kind

CREATE OR REPLACE MACRO wall_intervals() AS TABLE (
    WITH owned AS (
        SELECT
            trace_id,
            device,
            kind,
            row_number() OVER () AS id,
            least(
                owned_from_ns((trace_id, device, kind), ts_ns, end_ns, event_id), end_ns
            ) AS start_ns,
            end_ns,
            event_id,
            piece
        FROM device_events
    ),

    -- What is owned of one kind is disjoint: between a start and the next end there is no other.
    boundary AS (
        SELECT
            trace_id,
            device,
            kind,
            start_ns AS at_ns,
            TRUE AS is_start,
            id
        FROM owned
        WHERE start_ns < end_ns
        UNION ALL
        SELECT
            trace_id,
            device,
            kind,
            end_ns AS at_ns,
            FALSE AS is_start,
            0 AS id
        FROM owned
        WHERE start_ns < end_ns
    ),

    moment AS (
        SELECT
            trace_id,
            device,
            at_ns AS start_ns,
            lead(at_ns) OVER moments AS end_ns,
            last_value(if(kind = 'compute', id, NULL) IGNORE NULLS) OVER moments AS compute_id,
            last_value(if(kind = 'comm', id, NULL) IGNORE NULLS) OVER moments AS comm_id,
            last_value(if(kind = 'memcpy', id, NULL) IGNORE NULLS) OVER moments AS memcpy_id
        FROM boundary
        WINDOW
            moments AS (
                PARTITION BY trace_id, device ORDER BY at_ns, is_start
                ROWS UNBOUNDED PRECEDING
            )
    )

    SELECT
        m.trace_id,
        m.device,
        m.start_ns,
        m.end_ns,
        o.event_id,
        o.piece,
        o.kind
    FROM moment AS m
    LEFT JOIN owned AS o
        ON o.id = coalesce(
            nullif(m.compute_id, 0), nullif(m.comm_id, 0), nullif(m.memcpy_id, 0)
        )
    WHERE m.start_ns < m.end_ns
);
