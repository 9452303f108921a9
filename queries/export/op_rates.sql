-- Achieved FLOP/s of each op per device, and its share of peak: op_rates('work', 'ops').
-- Covers the ops that `op_costs` counts, timed by all compute kernels that they launched. The peak is the dense rate of
-- the operand type, or of tf32 for fp32 ops on tf32 kernels.
--
-- Kind:     function
-- Params:
--   work  VARCHAR  relation with the rows of attributed_events, complete for each op
--   ops   VARCHAR  relation of launching ops, as for op_costs; it must contain all ops nested in them
-- Columns:
--   trace_id INTEGER, device VARCHAR, op_id BIGINT
--   op_class         VARCHAR  op class, as in op_costs
--   flops            BIGINT
--   bytes            BIGINT   minimum bytes read and written
--   kernel_ns        BIGINT   sum of durations of the compute kernels of the op, ns
--   flop_per_s       DOUBLE
--   peak_type        VARCHAR  data type whose peak rate is used
--   peak_flop_per_s  DOUBLE   dense peak of the device, FLOP/s; NULL if unknown
--   peak_pct         DOUBLE

CREATE OR REPLACE MACRO op_rates(work, ops) AS TABLE (
    WITH launched AS (
        SELECT
            trace_id, device, op_id,
            sum(dur_ns)::BIGINT AS kernel_ns,
            bool_or(is_tf32_kernel(name)) AS is_tf32
        FROM query_table(work)
        WHERE kind = 'compute' AND op_id IS NOT NULL
        GROUP BY trace_id, device, op_id
    ),

    costed AS (
        SELECT w.*, o.op_class, o.flops, o.bytes, computed_type(o.dtype, w.is_tf32) AS peak_type
        FROM launched AS w
        INNER JOIN op_costs(ops) AS o USING (trace_id, op_id)
        WHERE o.flops IS NOT NULL
    )

    SELECT
        c.trace_id, c.device, c.op_id, c.op_class, c.flops, c.bytes, c.kernel_ns,
        1e9 * c.flops / nullif(c.kernel_ns, 0) AS flop_per_s,
        c.peak_type, p.flop_per_s AS peak_flop_per_s,
        if(
            1e9 * c.flops > c.kernel_ns * p.flop_per_s,
            NULL,
            100.0 * (1e9 * c.flops / nullif(c.kernel_ns, 0)) / p.flop_per_s
        ) AS peak_pct
    FROM costed AS c
    LEFT JOIN device_peak AS p
        ON
            c.trace_id = p.trace_id
            AND p.device IN (c.device, '*')
            AND c.peak_type = p.dtype
            AND has_flops(c.op_class)
);
