-- Device events with their final class.
-- The class of a collective comes from `collective_events`. A kernel has the class of its op if that class is more
-- specific (`class_by_op`). All analyses that report classes use this view.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace
--   event_id  BIGINT -> device_events.event_id  device event
--   piece BIGINT, device VARCHAR, stream BIGINT, category VARCHAR
--   name      VARCHAR                           kernel, copy, or op
--   class     VARCHAR                           class of the collective or the op, or else as in table kernel_class
--   kind VARCHAR, ts_ns BIGINT, dur_ns BIGINT, end_ns BIGINT, kind_wall_ns BIGINT, wall_ns BIGINT
--   step      BIGINT -> step_ranges             step in which the event was launched

SELECT
    e.trace_id, e.event_id, e.piece, e.device, e.stream, e.category, e.name,
    coalesce(c.class, a.op_class) AS class,
    e.kind, e.ts_ns, e.dur_ns, e.end_ns, e.kind_wall_ns, e.wall_ns, a.step
FROM device_events AS e
INNER JOIN attribution AS a USING (trace_id, event_id, piece)
LEFT JOIN collective_events AS c USING (trace_id, event_id, piece)
