-- What ran on each device, and to which launch, module, phase and step does it belong?
-- The device events as view classified_events has them, with what table attribution says of each: what an analysis
-- of phases, modules, steps or launches reads.
--
-- Kind:     view
-- Columns:
--   trace_id         INTEGER -> trace           the trace
--   event_id         BIGINT -> event            the event
--   piece            BIGINT                     number of the piece of a CPU op, from 0; 0 for work of accelerators
--   device           VARCHAR -> device_windows  number of the device, or cpu
--   stream           BIGINT                     stream of the device; the thread id on cpu
--   category         VARCHAR                    category, as in the file
--   name             VARCHAR                    kernel, copy or op
--   class            VARCHAR                    class: of the collective or the op, else as in table kernel_class
--   kind             VARCHAR                    compute, comm or memcpy
--   ts_ns            BIGINT                     start, ns
--   dur_ns           BIGINT                     duration, ns
--   end_ns           BIGINT                     end, ns
--   kind_wall_ns     BIGINT                     its part of the union of its kind on the device, ns
--   wall_ns          BIGINT                     its part of the busy time of the device, ns
--   correlation      BIGINT                     links the launch
--   bytes            BIGINT                     bytes copied or set, where the file tells
--   launch_id        BIGINT -> event.event_id   the launch; NULL where it is not in the trace
--   launch_delay_ns  BIGINT                     from the end of the launch to the start on the device, ns; negative if it began before
--   link             VARCHAR                    launch, before_window, missing_launch or cpu
--   op_id            BIGINT -> record.event_id   innermost op around the launch
--   op_name          VARCHAR                    its name
--   module_id        INTEGER -> module          module, as in table module; NULL where none
--   row_name         VARCHAR                    row of modules where there is no module; NULL where there is one
--   module_reason    VARCHAR                    how module or row is known, as in attribution_reasons()
--   phase            VARCHAR                    phase; other where unknown
--   phase_reason     VARCHAR                    how the phase is known, as in attribution_reasons()
--   step             BIGINT -> step_ranges      number of the step whose range on the CPU holds the launch
--   like_event_id    BIGINT -> event.event_id   the linked device event that one without a launch repeats; NULL where it fits none
--   is_inferred      BOOLEAN                    phase, module or row do not come from the launch's own surroundings

SELECT
    e.trace_id, e.event_id, e.piece, e.device, e.stream, e.category, e.name,
    coalesce(c.class, a.op_class) AS class,
    e.kind, e.ts_ns, e.dur_ns, e.end_ns, e.kind_wall_ns, e.wall_ns, e.correlation, e.bytes,
    a.launch_id, a.launch_delay_ns, a.link, a.op_id, a.op_name, a.module_id, a.row_name,
    a.module_reason, a.phase, a.phase_reason, a.step, a.like_event_id, a.is_inferred
FROM device_events AS e
INNER JOIN attribution AS a USING (trace_id, event_id, piece)
LEFT JOIN collective_events AS c USING (trace_id, event_id, piece)
