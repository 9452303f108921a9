-- Which ops ran on the CPU, each with its step?
--
-- Kind:     view
-- Columns:
--   trace_id         INTEGER -> trace            the trace
--   event_id         BIGINT -> event             the op
--   rank             INTEGER                     global rank
--   name             VARCHAR                     the op
--   ts_ns            BIGINT                      start, ns
--   dur_ns           BIGINT                      duration, ns
--   end_ns           BIGINT                      end, ns
--   pid              BIGINT                      process id
--   tid              BIGINT -> thread(pid, tid)  thread id
--   step             BIGINT -> step_ranges       step in whose range it starts
--   external_id      BIGINT                      links what it launched
--   sequence_number  BIGINT                      links a forward op and its autograd node
--   args             JSON                        shapes, types, strides and the rest

SELECT
    o.trace_id, o.event_id, t.rank, o.name, o.ts_ns, o.dur_ns,
    o.ts_ns + o.dur_ns AS end_ns,
    o.pid, o.tid,
    if(o.ts_ns < s.end_ns, s.step, NULL) AS step,
    o.external_id, o.sequence_number, o.args
FROM op_calls AS o
INNER JOIN trace AS t USING (trace_id)
ASOF LEFT JOIN step_ranges AS s ON o.trace_id = s.trace_id AND o.ts_ns >= s.ts_ns
