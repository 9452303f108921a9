-- When did each device have nothing to do, and why, each with phase, module and step?
-- The segments of table idle_gap.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace           the trace
--   gap_id    BIGINT                     number of the gap in the trace; segments of a gap share it
--   rank      INTEGER                    global rank
--   device    VARCHAR -> device_windows  number of the device, or cpu
--   cause     VARCHAR                    cause, as in table idle_gap
--   reason    VARCHAR                    what decided
--   ts_ns     BIGINT                     start, ns
--   dur_ns    BIGINT                     length, ns
--   end_ns    BIGINT                     end, ns
--   phase     VARCHAR                    phase that the host was in
--   module    VARCHAR                    path of the module, or a row of modules in parentheses
--   step      BIGINT -> step_ranges      step that the host was in; NULL outside of steps

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
