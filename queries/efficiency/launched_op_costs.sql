-- FLOPs and bytes of the ops that launched GPU work, as in op_costs.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER, op_id BIGINT, op_class VARCHAR, m BIGINT, n BIGINT, k BIGINT, batch BIGINT
--   layout VARCHAR, dtype VARCHAR, flops BIGINT, bytes BIGINT, reason VARCHAR

WITH launched_op AS (
    SELECT
        e.trace_id, e.event_id AS op_id, e.name, e.args, e.pid, e.tid, e.ts_ns,
        e.ts_ns + e.dur_ns AS end_ns
    FROM record AS e
    WHERE (e.trace_id, e.event_id) IN (SELECT (trace_id, op_id) FROM attribution)
)

SELECT * FROM op_costs('launched_op')
