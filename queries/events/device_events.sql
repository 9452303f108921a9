-- What ran on each device, of which kind and class, and which nanoseconds are its own?
-- A row is a kernel, copy or memset; on cpu, a piece of an op (table cpu_work).
-- Every busy nanosecond of a device belongs to exactly one event: compute before comm before memcpy, so wall_ns of comm
-- and memcpy is what is exposed of them; among equals the one that started first, then the one that ended first, then
-- the lower stream and correlation: the order of the file decides only between events that are alike in all of these.
-- So wall_ns adds up to the busy time of the device. native/owned_time.c goes through the events in their order and adds
-- kind_wall_ns and wall_ns.
--
-- Kind:      table
-- Columns:
--   trace_id      INTEGER -> trace           the trace
--   event_id      BIGINT -> event            the event
--   piece         BIGINT                     number of the piece of a CPU op, from 0; 0 for work of accelerators
--   device        VARCHAR -> device_windows  number of the device, or cpu
--   stream        BIGINT                     stream of the device; the thread id on cpu
--   category      VARCHAR                    category, as in the file
--   name          VARCHAR                    kernel, copy or op
--   class         VARCHAR                    class by its name, as in table kernel_class, or by its mark; of a collective its call may say more: view classified_events
--   kind          VARCHAR                    compute, comm or memcpy
--   ts_ns         BIGINT                     start, ns
--   dur_ns        BIGINT                     duration, ns
--   end_ns        BIGINT                     end, ns
--   kind_wall_ns  BIGINT                     its part of the union of its kind on the device, ns
--   wall_ns       BIGINT                     its part of the busy time of the device, ns
--   correlation   BIGINT                     links the launch
--   bytes         BIGINT                     bytes copied or set, where the file tells
-- Invariant: 0 <= wall_ns AND wall_ns <= kind_wall_ns AND kind_wall_ns <= dur_ns

SELECT
    w.trace_id, w.device, w.event_id, w.piece, w.stream, w.category, w.name, CASE
        WHEN collective_of(w.mark_class) = 'other' AND c.kind = 'comm' THEN c.class
        ELSE coalesce(w.mark_class, c.class)
    END AS class, CASE
        WHEN w.mark_class IS NULL THEN c.kind
        WHEN copy_of(w.mark_class) NOT IN ('none', 'set') THEN 'memcpy'
        WHEN collective_of(w.mark_class) <> 'none' THEN 'comm'
        ELSE 'compute'
    END AS kind,
    w.ts_ns, w.dur_ns,
    w.ts_ns + w.dur_ns AS end_ns,
    w.correlation, w.bytes
FROM device_work AS w
INNER JOIN kernel_class AS c
    ON w.name = c.name AND w.category IS NOT DISTINCT FROM c.category
ORDER BY w.trace_id, w.device, w.ts_ns, end_ns, w.stream, w.correlation, w.event_id
