-- What did the ops that put work on devices cost, and which type did their kernels compute in?
-- launched_op_costs() asks op_costs for the ops that launched any device event. Kernels of products of fp32 may
-- compute in tf32, which has another peak: their names tell.
--
-- Kind:     macro
-- Access:   private
-- Requires: attribution, op_costs
-- Params:
--   kernel   VARCHAR  name of a kernel
--   dtype    VARCHAR  type of the operands, as in op_costs
--   is_tf32  BOOLEAN  a kernel of the op computes in tf32
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

CREATE OR REPLACE MACRO is_tf32_kernel(kernel) AS
regexp_matches(kernel, '(?i)tf32|tensorop_s1688gemm');

-- The type whose peak and ceiling the work is measured against.
CREATE OR REPLACE MACRO computed_type(dtype, is_tf32) AS
if(dtype = 'fp32' AND is_tf32, 'tf32', dtype);

CREATE OR REPLACE MACRO launched_op_costs() AS TABLE (
    WITH launched_op AS (
        SELECT
            e.trace_id,
            e.event_id AS op_id,
            e.name,
            e.args,
            e.pid,
            e.tid,
            e.ts_ns,
            e.ts_ns + e.dur_ns AS end_ns
        FROM event AS e
        WHERE (e.trace_id, e.event_id) IN (SELECT (trace_id, op_id) FROM attribution)
    )

    SELECT * FROM op_costs('launched_op')
);
