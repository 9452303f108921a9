-- What ran on each device, and of which class, as far as anything tells?
-- The device events, with one difference: a collective has the class that its record tells (table collective_events). The
-- name of a kernel may say less: NCCL runs an all-to-all as SendRecv. Every analysis that names classes reads this.
--
-- Kind:     view
-- Requires: device_events, collective_events
-- Columns:
--   trace_id      INTEGER -> trace                  the trace
--   event_id      BIGINT -> device_events.event_id  the event
--   piece         BIGINT                            number of the piece of a CPU op, from 0; 0 for work of accelerators
--   device        VARCHAR                           number of the device, or cpu
--   stream        BIGINT                            stream of the device; the thread id on cpu
--   category      VARCHAR                           category, as in the file
--   name          VARCHAR                           kernel, copy or op
--   class         VARCHAR                           class: that of the collective, else as in table kernel_class
--   kind          VARCHAR                           compute, comm or memcpy
--   ts_ns         BIGINT                            start, ns
--   dur_ns        BIGINT                            duration, ns
--   end_ns        BIGINT                            end, ns
--   kind_wall_ns  BIGINT                            its part of the union of its kind on the device, ns
--   wall_ns       BIGINT                            its part of the busy time of the device, ns

SELECT
    e.trace_id, e.event_id, e.piece, e.device, e.stream, e.category, e.name,
    coalesce(c.class, e.class) AS class,
    e.kind, e.ts_ns, e.dur_ns, e.end_ns, e.kind_wall_ns, e.wall_ns
FROM device_events AS e
LEFT JOIN collective_events AS c USING (trace_id, event_id, piece)
