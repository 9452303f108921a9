-- Device events with their final class.
-- A collective has the class of its record (`collective_events`), a kernel that of its op if more specific
-- (`class_by_op`). Used by every analysis that reports classes.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace
--   event_id  BIGINT -> device_events.event_id  device event
--   piece BIGINT, device VARCHAR, stream BIGINT, category VARCHAR
--   name      VARCHAR                           kernel, copy, or op
--   class     VARCHAR                           class: of the collective or the op, else as in table kernel_class
--   kind VARCHAR, ts_ns BIGINT, dur_ns BIGINT, end_ns BIGINT, kind_wall_ns BIGINT, wall_ns BIGINT
--   step      BIGINT -> step_ranges             step that launched it

SELECT
    e.trace_id, e.event_id, e.piece, e.device, e.stream, e.category, e.name,
    coalesce(c.class, a.op_class) AS class,
    e.kind, e.ts_ns, e.dur_ns, e.end_ns, e.kind_wall_ns, e.wall_ns, a.step
FROM device_events AS e
INNER JOIN attribution AS a USING (trace_id, event_id, piece)
LEFT JOIN collective_events AS c USING (trace_id, event_id, piece)
