-- How many operations did each op put on a device, how fast, and how close to the device's peak?
-- op_rates('work', 'ops') has those of the ops whose operations macro op_costs counts. Their time is that of all compute
-- that the op launched on the device. The peak is the dense one of the operands' type; of fp32 on a kernel for tf32, that
-- of tf32.
--
-- Kind:     function
-- Params:
--   work  VARCHAR  name of a relation with the rows of attributed_events, all that are of one of the ops
--   ops   VARCHAR  name of a relation of ops that put work on devices, as macro op_costs takes it: all of a stretch
--                  of time, because what an op is made of is found among them
-- Columns:
--   trace_id         INTEGER  the trace
--   device           VARCHAR  number of the device, or cpu
--   op_id            BIGINT   the op
--   op_class         VARCHAR  as in op_costs
--   flops            BIGINT   operations
--   bytes            BIGINT   bytes read and written at least
--   kernel_ns        BIGINT   sum of the durations of its compute, ns
--   flop_per_s       DOUBLE   flops / kernel_ns, operations/s
--   peak_type        VARCHAR  type whose peak it is measured against
--   peak_flop_per_s  DOUBLE   dense peak of the device, operations/s; NULL where it is not known
--   peak_pct         DOUBLE   flop_per_s of the peak, 0 to 100

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
        100.0 * (1e9 * c.flops / nullif(c.kernel_ns, 0)) / p.flop_per_s AS peak_pct
    FROM costed AS c
    LEFT JOIN device_peak AS p
        ON
            c.trace_id = p.trace_id
            AND p.device IN (c.device, '*')
            AND c.peak_type = p.dtype
            AND has_flops(c.op_class)
);
