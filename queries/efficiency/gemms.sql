-- Matrix multiplications by op, size, and type, per device.
-- GEMM ops with recorded shapes (mm, addmm, bmm, linear, grouped, scaled, …) are timed by all compute kernels that they
-- launch. Other GEMM kernels have no size, and `reason` says why. The peak is the dense rate of the operand type
-- (queries/rules/devices.toml), or the tf32 rate if an fp32 GEMM runs on a tf32 kernel. The measured peak is from
-- `tracekit bench`; a GEMM at a higher clock can exceed it.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit      BIGINT = 30      number of rows per device, longest first; 0 for all
--   by_module  BOOLEAN = false  split by module
-- Columns:
--   rank INTEGER, device VARCHAR
--   op_name                   VARCHAR  op; NULL outside ops
--   m BIGINT, n BIGINT, k BIGINT, batch BIGINT, dtype VARCHAR
--   layout                    VARCHAR  memory order of A and B (N row-major, T column-major, - neither); NULL if unknown
--   call_count                BIGINT   number of op calls, or of kernels outside ops
--   kernel_ns                 BIGINT   sum of durations, ns
--   mean_ns                   DOUBLE   time per call, ns
--   kernel_pct                DOUBLE   share of the device window, percent; above 100 if kernels overlap
--   flops BIGINT, flop_per_s DOUBLE
--   peak_type                 VARCHAR  data type whose peak rate is used
--   peak_flop_per_s           DOUBLE   dense peak of the device, FLOP/s
--   peak_pct                  DOUBLE
--   peak_source               VARCHAR  source of the peak: vendor document or command line
--   module_path               VARCHAR  if `by_module`: module path with layer numbers replaced by *; NULL if none or several
--   reason                    VARCHAR  why size or peak is missing; else NULL
--   measured_peak_flop_per_s  DOUBLE   measured peak GEMM rate for peak_type, FLOP/s
--   measured_peak_pct DOUBLE, measured_peak_source VARCHAR, measured_peak_reason VARCHAR
-- Keep:     rank, device, op_name, m, n, k, batch, dtype, call_count, kernel_ns, flop_per_s, peak_pct,
--           measured_peak_pct, kernel_pct
-- Invariant: flops IS NULL OR flops = 2 * m * n * k * batch * call_count
-- Invariant: reason IS NOT NULL OR peak_pct IS NOT NULL
-- Invariant: (measured_peak_reason IS NULL) = (measured_peak_pct IS NOT NULL)

WITH work AS (
    SELECT
        d.trace_id, d.device, d.event_id, d.piece, d.class, d.dur_ns,
        is_tf32_kernel(d.name) AS is_tf32,
        d.op_id, d.op_name, if($by_module, m.rollup_path, NULL) AS module_path, CASE
            WHEN d.launch_id IS NULL THEN 'its launch was not recorded'
            WHEN d.op_id IS NULL THEN 'its launch is in no op'
        END AS why
    FROM attributed_events AS d
    LEFT JOIN module AS m USING (trace_id, module_id)
    WHERE d.kind = 'compute'
),

costed AS (
    SELECT
        w.*,
        if(is_gemm(o.op_class), o.op_id, NULL) AS gemm_id,
        o.m, o.n, o.k, o.batch, o.layout, o.dtype, o.flops, CASE
            WHEN w.why IS NOT NULL THEN w.why
            WHEN has_flops(o.op_class) AND NOT is_gemm(o.op_class)
                THEN 'part of another operation'
            WHEN o.flops IS NULL OR NOT is_gemm(o.op_class)
                THEN coalesce(o.reason, 'part of another operation')
        END AS no_size
    FROM work AS w
    LEFT JOIN launched_op_costs AS o ON w.trace_id = o.trace_id AND w.op_id = o.op_id
    WHERE is_gemm(o.op_class) OR is_gemm(w.class)
),

call AS (
    SELECT
        trace_id, device, op_name, gemm_id,
        if(
            count(*) = count(module_path) AND min(module_path) = max(module_path),
            min(module_path), NULL
        ) AS module_path,
        any_value(m) FILTER (no_size IS NULL) AS m,
        any_value(n) FILTER (no_size IS NULL) AS n,
        any_value(k) FILTER (no_size IS NULL) AS k,
        any_value(batch) FILTER (no_size IS NULL) AS batch,
        any_value(layout) FILTER (no_size IS NULL) AS layout,
        any_value(dtype) AS dtype,
        any_value(flops) FILTER (no_size IS NULL) AS flops,
        no_size,
        bool_or(is_tf32) AS is_tf32,
        if(gemm_id IS NULL, count(*) FILTER (piece = 0), 1) AS call_count,
        sum(dur_ns)::BIGINT AS kernel_ns
    FROM costed
    GROUP BY
        trace_id, device, op_name, gemm_id, no_size, if(gemm_id IS NULL, module_path, NULL)
),

summed AS (
    SELECT
        trace_id, device, op_name, module_path, m, n, k, batch,
        if(no_size IS NULL, dtype, NULL) AS dtype,
        if(no_size IS NULL, computed_type(dtype, is_tf32), NULL) AS peak_type,
        layout, no_size,
        sum(call_count)::BIGINT AS call_count,
        sum(kernel_ns)::BIGINT AS kernel_ns,
        sum(flops)::BIGINT AS flops
    FROM call
    GROUP BY ALL
)

SELECT
    w.rank, w.device, s.op_name, s.m, s.n, s.k, s.batch, s.dtype, s.layout, s.call_count,
    s.kernel_ns,
    s.kernel_ns / nullif(s.call_count, 0) AS mean_ns,
    100.0 * s.kernel_ns / nullif(w.window_ns, 0) AS kernel_pct,
    s.flops,
    1e9 * s.flops / nullif(s.kernel_ns, 0) AS flop_per_s,
    s.peak_type, p.flop_per_s AS peak_flop_per_s,
    if(
        1e9 * s.flops > s.kernel_ns * p.flop_per_s,
        NULL,
        100.0 * (1e9 * s.flops / nullif(s.kernel_ns, 0)) / p.flop_per_s
    ) AS peak_pct,
    p.source AS peak_source, s.module_path,
    CASE
        WHEN s.no_size IS NOT NULL THEN s.no_size
        WHEN unknown_peak(w.trace_id, w.device) IS NOT NULL
            THEN unknown_peak(w.trace_id, w.device)
        WHEN p.flop_per_s IS NULL THEN 'the device has no peak for this type'
        WHEN s.kernel_ns = 0 THEN 'shorter than the clock resolution'
        WHEN 1e9 * s.flops > s.kernel_ns * p.flop_per_s
            THEN 'more operations than the device can execute: its name, peak, or shapes are wrong'
    END AS reason, c.flop_per_s AS measured_peak_flop_per_s,
    100.0 * (1e9 * s.flops / nullif(s.kernel_ns, 0)) / c.flop_per_s AS measured_peak_pct,
    c.source AS measured_peak_source, CASE
        WHEN s.no_size IS NOT NULL THEN s.no_size
        WHEN peak_rate_gap(r.trace_id, r.reason) IS NOT NULL
            THEN peak_rate_gap(r.trace_id, r.reason)
        WHEN c.flop_per_s IS NULL THEN 'no GEMM of this type was measured on this device'
        WHEN s.kernel_ns = 0 THEN 'shorter than the clock resolution'
    END AS measured_peak_reason
FROM summed AS s
INNER JOIN device_windows AS w ON s.trace_id = w.trace_id AND s.device = w.device
LEFT JOIN device_peak AS p
    ON s.trace_id = p.trace_id AND p.device IN (s.device, '*') AND s.peak_type = p.dtype
LEFT JOIN peak_rates('product') AS c
    ON s.trace_id = c.trace_id AND is_listed(c.device, s.device) AND s.peak_type = c.dtype
LEFT JOIN peak_rate_reasons('product') AS r
    ON s.trace_id = r.trace_id AND is_listed(r.device, s.device)
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY w.trace_id, w.device
        ORDER BY
            s.kernel_ns DESC, s.op_name, s.m, s.n, s.k, s.batch, s.dtype, s.layout, s.no_size,
            s.module_path
    ) <= $limit
ORDER BY
    w.rank NULLS LAST, w.trace_id, w.device, s.kernel_ns DESC, s.op_name, s.m, s.n, s.k, s.batch,
    s.dtype, s.layout, s.no_size, s.module_path
