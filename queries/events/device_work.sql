-- Which events are work on a device?
-- Kernels, copies and memsets of accelerators, by Kineto's categories or by the marks of queries/rules/device_events.toml.
-- In a trace of the CPU alone, that is the device, and the pieces of table cpu_work are its work.
--
-- Kind:     view
-- Columns:
--   trace_id     INTEGER -> trace  the trace
--   event_id     BIGINT -> event   the event
--   piece        BIGINT            number of the piece of a CPU op, from 0; 0 for work of accelerators
--   device       VARCHAR           number of the device, or cpu; unknown where the file tells neither device nor process
--   stream       BIGINT            stream of the device; the thread id on cpu
--   category     VARCHAR           category, as in the file
--   name         VARCHAR           kernel, copy or op
--   ts_ns        BIGINT            start, ns
--   dur_ns       BIGINT            duration, ns
--   correlation  BIGINT            links the launch
--   bytes        BIGINT            bytes copied or set, where the file tells
--   mark_class   VARCHAR           class that the mark of the event tells; comm_other for any communication; NULL where its name decides

SELECT
    event.trace_id, event.event_id,
    0::BIGINT AS piece,
    coalesce(coalesce(device, pid)::VARCHAR, 'unknown') AS device,
    stream, category, name, ts_ns, dur_ns, correlation, CASE
        WHEN category NOT IN ('kernel', 'Kernel')
            THEN addressable(try_cast(args ->> '$.bytes' AS BIGINT))
    END AS bytes,
    CASE WHEN collective_copy.event_id IS NOT NULL THEN 'comm_other' END AS mark_class
FROM event
LEFT JOIN collective_copy
    ON event.trace_id = collective_copy.trace_id AND event.event_id = collective_copy.event_id
WHERE is_device_work(category)
UNION ALL
SELECT
    event.trace_id, event.event_id,
    0::BIGINT AS piece,
    coalesce(device_mark.device, 'unknown') AS device,
    device_mark.stream, event.category, event.name, event.ts_ns, event.dur_ns, event.correlation,
    CASE
        WHEN device_mark.role = 'copy'
            THEN
                addressable(
                    coalesce(
                        try_cast(event.args ->> '$.bytes' AS BIGINT),
                        try_cast(event.args ->> '$.size' AS BIGINT)
                    )
                )
    END AS bytes,
    coalesce(device_mark.class, CASE WHEN device_mark.role = 'comm' THEN 'comm_other' END)
        AS mark_class
FROM device_mark
INNER JOIN event ON device_mark.trace_id = event.trace_id AND device_mark.event_id = event.event_id
WHERE device_mark.role IN ('work', 'copy', 'comm')
UNION ALL
SELECT
    cpu_work.trace_id, cpu_work.event_id, cpu_work.piece,
    'cpu' AS device,
    cpu_work.tid AS stream, event.category, event.name, cpu_work.ts_ns, cpu_work.dur_ns,
    NULL::BIGINT AS correlation,
    NULL::BIGINT AS bytes,
    NULL::VARCHAR AS mark_class
FROM cpu_work
INNER JOIN event ON cpu_work.trace_id = event.trace_id AND cpu_work.event_id = event.event_id
WHERE cpu_work.trace_id IN (SELECT trace_id FROM accelerator WHERE accelerator = 'cpu')
