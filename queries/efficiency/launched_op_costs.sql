-- What did the ops that put work on devices cost?
-- launched_op_costs asks op_costs for the ops that launched any device event.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id  INTEGER  the trace
--   op_id     BIGINT   the op
--   op_class  VARCHAR  as in op_costs
--   m         BIGINT   as in op_costs
--   n         BIGINT   as in op_costs
--   k         BIGINT   as in op_costs
--   batch     BIGINT   as in op_costs
--   layout    VARCHAR  as in op_costs
--   dtype     VARCHAR  as in op_costs
--   flops     BIGINT   as in op_costs
--   bytes     BIGINT   as in op_costs
--   reason    VARCHAR  as in op_costs

WITH launched_op AS (
    SELECT
        e.trace_id, e.event_id AS op_id, e.name, e.args, e.pid, e.tid, e.ts_ns,
        e.ts_ns + e.dur_ns AS end_ns
    FROM record AS e
    WHERE (e.trace_id, e.event_id) IN (SELECT (trace_id, op_id) FROM attribution)
)

SELECT * FROM op_costs('launched_op')
