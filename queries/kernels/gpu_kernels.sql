-- Kernels, copies, and memsets on accelerators with phase, module, step, and op.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace
--   event_id  BIGINT -> event            device event
--   rank      INTEGER
--   device    VARCHAR -> device_windows  device number
--   stream    BIGINT
--   name      VARCHAR                    kernel or copy
--   class VARCHAR, kind VARCHAR, ts_ns BIGINT, dur_ns BIGINT, end_ns BIGINT
--   phase     VARCHAR                    phase; other if unknown
--   module    VARCHAR
--   step      BIGINT -> step_ranges      step whose range on the host contains the launch
--   op VARCHAR, launch_id BIGINT -> event.event_id, bytes BIGINT

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
