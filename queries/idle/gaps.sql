-- Idle gap segments of each device with cause, phase, module, and step.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace
--   gap_id  BIGINT                 gap number within the trace; segments of a gap share it
--   rank INTEGER, device VARCHAR -> device_windows
--   cause   VARCHAR                cause, as in idle_gap
--   reason  VARCHAR                rule that decided the cause, as in idle_gap
--   ts_ns   BIGINT
--   dur_ns  BIGINT                 length, ns
--   end_ns  BIGINT
--   phase   VARCHAR                phase that the host was in
--   module  VARCHAR
--   step    BIGINT -> step_ranges  step that the host was in; NULL outside steps

SELECT
    g.trace_id, g.gap_id, t.rank, g.device, g.cause, g.reason,
    g.start_ns AS ts_ns,
    g.idle_ns AS dur_ns,
    g.end_ns, g.phase,
    coalesce(m.path, g.row_name) AS module,
    g.step
FROM idle_gap AS g
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN module AS m USING (trace_id, module_id)
