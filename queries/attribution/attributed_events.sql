-- Device events with class, launch, op, module, phase, and step.
-- Combines device_events and `attribution`. The class of a collective comes from collective_events. Analyses by phase,
-- module, step, or launch read this view.
--
-- Kind:     view
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> event, piece BIGINT, device VARCHAR -> device_windows
--   stream BIGINT, category VARCHAR
--   name             VARCHAR                   kernel, copy, or op
--   class VARCHAR, kind VARCHAR, ts_ns BIGINT, dur_ns BIGINT, end_ns BIGINT, kind_wall_ns BIGINT
--   wall_ns BIGINT, correlation BIGINT, bytes BIGINT, launch_id BIGINT -> event.event_id
--   launch_delay_ns  BIGINT                    time from the end of the launch to the start on the device, ns; negative if the work started earlier
--   link VARCHAR, op_id BIGINT -> record.event_id, op_name VARCHAR, module_id INTEGER -> module
--   row_name VARCHAR
--   module_reason    VARCHAR                   how module_id or row_name is known, as in attribution_reasons()
--   phase            VARCHAR                   phase; other if unknown
--   phase_reason     VARCHAR                   how the phase is known, as in attribution_reasons()
--   step             BIGINT -> step_ranges     step whose range on the host contains the launch
--   like_event_id    BIGINT -> event.event_id  for an event without a launch, the launched event that provides its attribution; else NULL
--   is_inferred      BOOLEAN                   phase, module, or row_name does not come from the launch context

SELECT
    e.trace_id, e.event_id, e.piece, e.device, e.stream, e.category, e.name,
    coalesce(c.class, a.op_class) AS class,
    e.kind, e.ts_ns, e.dur_ns, e.end_ns, e.kind_wall_ns, e.wall_ns, e.correlation, e.bytes,
    a.launch_id, a.launch_delay_ns, a.link, a.op_id, a.op_name, a.module_id, a.row_name,
    a.module_reason, a.phase, a.phase_reason, a.step, a.like_event_id, a.is_inferred
FROM device_events AS e
INNER JOIN attribution AS a USING (trace_id, event_id, piece)
LEFT JOIN collective_events AS c USING (trace_id, event_id, piece)
