-- CPU ops with their step.
--
-- Kind:     view
-- Columns:
--   trace_id         INTEGER -> trace
--   event_id         BIGINT -> event        op
--   rank             INTEGER
--   name             VARCHAR                op
--   ts_ns BIGINT, dur_ns BIGINT, end_ns BIGINT, pid BIGINT, tid BIGINT -> thread(pid, tid)
--   step             BIGINT -> step_ranges  step whose range contains the start of the op
--   external_id      BIGINT                 ID that links launched work
--   sequence_number  BIGINT                 ID that links a forward op and its autograd node
--   args             JSON                   shapes, types, strides, and more

SELECT
    o.trace_id, o.event_id, t.rank, o.name, o.ts_ns, o.dur_ns,
    o.ts_ns + o.dur_ns AS end_ns,
    o.pid, o.tid,
    if(o.ts_ns < s.end_ns, s.step, NULL) AS step,
    o.external_id, o.sequence_number, o.args
FROM op_calls AS o
INNER JOIN trace AS t USING (trace_id)
ASOF LEFT JOIN step_ranges AS s ON o.trace_id = s.trace_id AND o.ts_ns >= s.ts_ns
