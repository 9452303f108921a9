-- Events that are GPU work; in CPU-only traces, pieces of ops.
-- Kernels, copies, and memsets are recognized by Kineto category or by the marks in queries/rules/device_events.toml.
-- In CPU-only traces, the pieces come from cpu_work.
--
-- Kind:     view
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> event, piece BIGINT
--   device      VARCHAR  device number, or cpu; unknown if the file names neither device nor process
--   stream BIGINT, category VARCHAR
--   name        VARCHAR  kernel, copy, or op
--   ts_ns BIGINT, dur_ns BIGINT, correlation BIGINT, bytes BIGINT
--   mark_class  VARCHAR  class set by the mark; comm_other for any communication; NULL if the class follows from the name

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
