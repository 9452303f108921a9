-- Compute time by phase, op class, and type, with its roofline bound.
-- FLOPs and ideal bytes come from op shapes (`op_costs`), and times from the compute kernels of the ops. Work is
-- memory-bound if its intensity (FLOPs per byte) is below the ridge of the device. Work with unknown FLOPs has rows
-- without op class, one per reason, so kernel_ns adds up to all compute of the phase. Bounds use data-sheet rates;
-- columns measured_peak_… use rates of `tracekit bench`. Work on cached tensors can exceed the memory bandwidth.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR, phase VARCHAR
--   op_class                     VARCHAR  op class; NULL for uncounted work
--   dtype                        VARCHAR  operand type; NULL for uncounted work
--   op_count                     BIGINT   number of ops, or of kernels if the ops are unknown
--   kernel_ns                    BIGINT   sum of durations, ns
--   kernel_pct                   DOUBLE   share of the compute of the device, 0 to 100
--   flops                        BIGINT
--   bytes                        BIGINT   ideal bytes; NULL if not all are known
--   flop_per_s                   DOUBLE
--   memory_bytes_per_s           DOUBLE   bytes / kernel_ns, bytes/s
--   intensity_flop_per_byte      DOUBLE   flops / bytes
--   ridge_flop_per_byte          DOUBLE   peak rate / memory bandwidth
--   bound                        VARCHAR  compute or memory
--   attainable_pct               DOUBLE   achieved rate as a share of the attainable rate, percent; see reason if above 100
--   peak_source                  VARCHAR  source of peak and bandwidth
--   top_op                       VARCHAR  op with the most time
--   reason                       VARCHAR  why a value is missing or implausible; else NULL
--   measured_peak_flop_per_s           DOUBLE   measured peak GEMM rate for the type, FLOP/s
--   measured_peak_memory_bytes_per_s   DOUBLE   measured peak memory rate, bytes/s
--   measured_peak_ridge_flop_per_byte  DOUBLE   ratio of the two measured rates
--   measured_peak_bound                VARCHAR  compute or memory, by the measured rates
--   measured_peak_attainable_pct       DOUBLE   achieved rate as a share of the attainable rate by the measured rates, percent
--   measured_peak_source               VARCHAR  source of the measured rates
--   measured_peak_reason               VARCHAR  why a measured rate is missing; else NULL
-- Keep:     rank, device, phase, op_class, dtype, kernel_ns, kernel_pct, flop_per_s, memory_bytes_per_s, bound,
--           attainable_pct, op_count
-- Invariant: (op_class IS NULL) = (flops IS NULL)
-- Invariant: reason IS NOT NULL OR bound IS NOT NULL
-- Invariant: measured_peak_reason IS NOT NULL OR measured_peak_bound IS NOT NULL

WITH work AS (
    SELECT
        d.trace_id, d.device, d.phase, d.op_id, d.op_name,
        any_value(d.name) AS name,
        count(*) FILTER (d.piece = 0) AS kernel_count,
        sum(d.dur_ns)::BIGINT AS kernel_ns,
        bool_or(is_tf32_kernel(d.name)) AS is_tf32,
        CASE
            WHEN d.op_id IS NOT NULL THEN NULL
            WHEN d.launch_id IS NULL THEN 'its launch was not recorded'
            ELSE 'its launch is in no op'
        END AS why
    FROM attributed_events AS d
    WHERE d.kind = 'compute'
    GROUP BY d.trace_id, d.device, d.phase, d.op_id, d.op_name, why
),

costed AS (
    SELECT
        w.*,
        o.op_class,
        computed_type(o.dtype, w.is_tf32) AS dtype,
        o.flops, o.bytes,
        coalesce(w.why, o.reason) AS why_not
    FROM work AS w
    LEFT JOIN launched_op_costs AS o USING (trace_id, op_id)
),

summed AS (
    SELECT
        trace_id, device, phase,
        if(flops IS NULL, NULL, op_class) AS op_class,
        if(flops IS NULL, NULL, dtype) AS dtype,
        if(flops IS NULL, why_not, NULL) AS uncounted,
        sum(if(op_id IS NULL, kernel_count, 1))::BIGINT AS op_count,
        sum(kernel_ns)::BIGINT AS kernel_ns,
        sum(flops)::BIGINT AS flops,
        if(count(bytes) = count(*), sum(bytes), NULL)::BIGINT AS bytes,
        max(why_not) AS why_not,
        arg_max(coalesce(op_name, name), (kernel_ns, coalesce(op_name, name))) AS top_op
    FROM costed
    GROUP BY
        trace_id, device, phase, if(flops IS NULL, NULL, op_class),
        if(flops IS NULL, NULL, dtype), uncounted
),

placed AS (
    SELECT
        w.rank,
        s.*,
        unknown_peak(s.trace_id, s.device) AS no_peak,
        100.0 * s.kernel_ns
        / nullif(sum(s.kernel_ns) OVER (PARTITION BY s.trace_id, s.device), 0)::BIGINT
            AS kernel_pct,
        1.0 * s.flops / nullif(s.bytes, 0) AS intensity,
        p.flop_per_s AS peak_flop_per_s, p.memory_bytes_per_s AS peak_bytes_per_s,
        p.source AS peak_source,
        p.flop_per_s / p.memory_bytes_per_s AS ridge,
        c.flop_per_s AS measured_peak_flop_per_s, c.source AS product_source,
        m.bytes_per_s AS measured_peak_bytes_per_s, m.source AS memory_source,
        c.flop_per_s / m.bytes_per_s AS measured_peak_ridge,
        coalesce(peak_rate_gap(pr.trace_id, pr.reason), mr.reason) AS no_peak_rate
    FROM summed AS s
    INNER JOIN device_windows AS w USING (trace_id, device)
    LEFT JOIN device_peak AS p
        ON s.trace_id = p.trace_id AND p.device IN (s.device, '*') AND s.dtype = p.dtype
    LEFT JOIN peak_rates('product') AS c
        ON s.trace_id = c.trace_id AND is_listed(c.device, s.device) AND s.dtype = c.dtype
    LEFT JOIN peak_rates('memory') AS m
        ON s.trace_id = m.trace_id AND is_listed(m.device, s.device)
    LEFT JOIN peak_rate_reasons('product') AS pr
        ON s.trace_id = pr.trace_id AND is_listed(pr.device, s.device)
    LEFT JOIN peak_rate_reasons('memory') AS mr
        ON s.trace_id = mr.trace_id AND is_listed(mr.device, s.device)
)

SELECT
    rank, device, phase, op_class, dtype, op_count, kernel_ns, kernel_pct, flops, bytes,
    1e9 * flops / nullif(kernel_ns, 0) AS flop_per_s,
    1e9 * bytes / nullif(kernel_ns, 0) AS memory_bytes_per_s,
    intensity AS intensity_flop_per_byte, ridge AS ridge_flop_per_byte,
    CASE WHEN intensity < ridge THEN 'memory' WHEN intensity >= ridge THEN 'compute' END AS bound,
    if(
        bytes IS NULL,
        NULL,
        100.0 * greatest(
            1e9 * flops / nullif(kernel_ns, 0) / peak_flop_per_s,
            1e9 * bytes / nullif(kernel_ns, 0) / peak_bytes_per_s
        )
    ) AS attainable_pct,
    peak_source, top_op, CASE
        WHEN uncounted IS NOT NULL THEN uncounted
        WHEN bytes IS NULL THEN why_not
        WHEN no_peak IS NOT NULL THEN no_peak
        WHEN peak_flop_per_s IS NULL THEN 'the device has no peak for this type'
        WHEN ridge IS NULL THEN 'the memory bandwidth of the device is unknown'
        WHEN bytes = 0 THEN 'no bytes to read or write'
        WHEN 1e9 * bytes / nullif(kernel_ns, 0) > peak_bytes_per_s
            THEN 'more bytes than the memory bandwidth allows: part of the data stayed in a cache'
        WHEN 1e9 * flops / nullif(kernel_ns, 0) > peak_flop_per_s
            THEN 'more operations than the device can execute: not all of the shapes was computed'
    END AS reason, measured_peak_flop_per_s,
    if(uncounted IS NULL, measured_peak_bytes_per_s, NULL) AS measured_peak_memory_bytes_per_s,
    measured_peak_ridge AS measured_peak_ridge_flop_per_byte, CASE
        WHEN intensity < measured_peak_ridge THEN 'memory'
        WHEN intensity >= measured_peak_ridge THEN 'compute'
    END AS measured_peak_bound,
    if(
        measured_peak_ridge IS NULL OR bytes IS NULL,
        NULL,
        100.0 * greatest(
            1e9 * flops / nullif(kernel_ns, 0) / measured_peak_flop_per_s,
            1e9 * bytes / nullif(kernel_ns, 0) / measured_peak_bytes_per_s
        )
    ) AS measured_peak_attainable_pct,
    if(uncounted IS NULL, nullif(concat_ws('; ', product_source, memory_source), ''), NULL)
        AS measured_peak_source,
    CASE
        WHEN uncounted IS NOT NULL THEN uncounted
        WHEN bytes IS NULL THEN why_not
        WHEN no_peak_rate IS NOT NULL THEN no_peak_rate
        WHEN measured_peak_ridge IS NULL THEN 'no GEMM of this type was measured on this device'
        WHEN bytes = 0 THEN 'no bytes to read or write'
    END AS measured_peak_reason
FROM placed
ORDER BY rank NULLS LAST, trace_id, device, phase, kernel_ns DESC, op_class, dtype, reason
