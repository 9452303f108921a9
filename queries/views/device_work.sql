-- Which events are work on a device?
-- Kernels, copies and memsets of accelerators. In a trace without any, the CPU is the device, and the pieces of table
-- cpu_work are its work.
--
-- Kind:     view
-- Requires: event_category, cpu_work
-- Columns:
--   trace_id     INTEGER  the trace
--   event_id     BIGINT   the event
--   piece        BIGINT   number of the piece of a CPU op, from 0; 0 for work of accelerators
--   device       VARCHAR  number of the device, or cpu; unknown where the file tells neither device nor process
--   stream       BIGINT   stream of the device; the thread id on cpu
--   category     VARCHAR  category, as in the file
--   name         VARCHAR  kernel, copy or op
--   ts_ns        BIGINT   start, ns
--   dur_ns       BIGINT   duration, ns
--   correlation  BIGINT   links the launch
--   bytes        BIGINT   bytes copied or set, where the file tells

SELECT
    trace_id,
    event_id,
    0::BIGINT AS piece,
    coalesce(coalesce(device, pid)::VARCHAR, 'unknown') AS device,
    stream,
    category,
    name,
    ts_ns,
    dur_ns,
    correlation,
    CASE
        WHEN category NOT IN ('kernel', 'Kernel') THEN try_cast(args ->> '$.bytes' AS BIGINT)
    END AS bytes
FROM event
WHERE is_device_work(category)
UNION ALL
SELECT
    cpu_work.trace_id,
    cpu_work.event_id,
    cpu_work.piece,
    'cpu' AS device,
    cpu_work.tid AS stream,
    event.category,
    event.name,
    cpu_work.ts_ns,
    cpu_work.dur_ns,
    NULL::BIGINT AS correlation,
    NULL::BIGINT AS bytes
FROM cpu_work
INNER JOIN event ON cpu_work.trace_id = event.trace_id AND cpu_work.event_id = event.event_id
