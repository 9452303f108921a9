-- Which kernels, copies and memsets ran on accelerators, each with phase, module, step and op?
--
-- Kind:     view
-- Columns:
--   trace_id   INTEGER -> trace           the trace
--   event_id   BIGINT -> event            the event
--   rank       INTEGER                    global rank
--   device     VARCHAR -> device_windows  number of the device
--   stream     BIGINT                     stream
--   name       VARCHAR                    kernel or copy
--   class      VARCHAR                    class, as in kernel_classes
--   kind       VARCHAR                    compute, comm or memcpy
--   ts_ns      BIGINT                     start, ns
--   dur_ns     BIGINT                     duration, ns
--   end_ns     BIGINT                     end, ns
--   phase      VARCHAR                    phase; other where unknown
--   module     VARCHAR                    path of the module, or a row of modules in parentheses
--   step       BIGINT -> step_ranges      step whose range on the CPU holds the launch
--   op         VARCHAR                    innermost op around the launch
--   launch_id  BIGINT -> event.event_id   the launch; NULL where it is not in the trace
--   bytes      BIGINT                     bytes copied or set, where the file tells

SELECT
    a.trace_id, a.event_id, t.rank, a.device, a.stream, a.name, a.class, a.kind, a.ts_ns, a.dur_ns,
    a.end_ns, a.phase,
    coalesce(m.path, a.row_name) AS module,
    a.step,
    a.op_name AS op,
    a.launch_id, a.bytes
FROM attributed_events AS a
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN module AS m USING (trace_id, module_id)
WHERE a.device <> 'cpu'
