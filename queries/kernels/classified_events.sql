-- What ran on each device, and of which class, as far as anything tells?
-- The device events, with two differences: a collective has the class of its record (table collective_events), and a
-- kernel that of the op that launched it where that says more than its name (macro class_by_op). NCCL runs an all-to-all
-- as SendRecv, cuDNN a convolution as a gemm. Every analysis that names classes reads this.
--
-- Kind:     view
-- Columns:
--   trace_id      INTEGER -> trace                  the trace
--   event_id      BIGINT -> device_events.event_id  the event
--   piece         BIGINT                            number of the piece of a CPU op, from 0; 0 for work of accelerators
--   device        VARCHAR                           number of the device, or cpu
--   stream        BIGINT                            stream of the device; the thread id on cpu
--   category      VARCHAR                           category, as in the file
--   name          VARCHAR                           kernel, copy or op
--   class         VARCHAR                           class: of the collective or the op, else as in table kernel_class
--   kind          VARCHAR                           compute, comm or memcpy
--   ts_ns         BIGINT                            start, ns
--   dur_ns        BIGINT                            duration, ns
--   end_ns        BIGINT                            end, ns
--   kind_wall_ns  BIGINT                            its part of the union of its kind on the device, ns
--   wall_ns       BIGINT                            its part of the busy time of the device, ns
--   step          BIGINT -> step_ranges             number of the step that launched it

SELECT
    e.trace_id, e.event_id, e.piece, e.device, e.stream, e.category, e.name,
    coalesce(c.class, a.op_class) AS class,
    e.kind, e.ts_ns, e.dur_ns, e.end_ns, e.kind_wall_ns, e.wall_ns, a.step
FROM device_events AS e
INNER JOIN attribution AS a USING (trace_id, event_id, piece)
LEFT JOIN collective_events AS c USING (trace_id, event_id, piece)
