-- Model FLOPs utilization (MFU) of each step, per device.
-- MFU is the FLOPs of GEMMs, attention, and convolutions as a share of the FLOPs at the dense peak rate in the same
-- time. HFU includes recompute. If FLOPs are known for less than min_covered_pct of the kernel time, the parameter
-- counts in run.json are used, or MFU is NULL. N parameters, T of them trained, need 4 N + 2 T FLOPs per token. Without
-- steps, the window counts as one step. run_mfu_pct refers to an unprofiled step, and columns measured_peak_… to rates
-- of `tracekit bench`.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   min_covered_pct  DOUBLE = 95  minimum share of GEMM, attention, and convolution time with known FLOPs, 0 to 100
-- Columns:
--   rank INTEGER, device VARCHAR
--   step                      BIGINT   step number; NULL for the window of a trace without steps
--   step_ns                   BIGINT   length of the step on the device (span_ns in steps), or of the window, ns
--   work_ns                   BIGINT
--   source                    VARCHAR  source of the FLOPs: shapes or parameters; NULL if unknown
--   flops                     BIGINT   known FLOPs
--   recompute_flops           BIGINT   FLOPs of recompute; NULL if source is parameters
--   dtype                     VARCHAR  data type of most FLOPs
--   peak_flop_per_s           DOUBLE   dense peak of the device for dtype, FLOP/s
--   peak_source               VARCHAR  source of the peak: vendor documents, or command line
--   flop_per_s                DOUBLE   flops / step_ns, FLOP/s
--   covered_pct               DOUBLE   share of the GEMM, attention, and convolution time with known FLOPs, 0 to 100
--   mfu_pct                   DOUBLE   model FLOPs utilization, 0 to 100
--   hfu_pct                   DOUBLE   hardware FLOPs utilization (with recompute), 0 to 100; NULL if source is parameters
--   work_mfu_pct              DOUBLE   MFU relative to work_ns; useful if the range of the last step ends long after its work
--   run_mfu_pct               DOUBLE   MFU of an unprofiled step; NULL if none was measured
--   at_least_mfu_pct          DOUBLE   lower bound of MFU if mfu_pct is NULL: MFU of the known FLOPs, 0 to 100
--   unknown_ops               VARCHAR  top three ops with unknown FLOPs and their share of time; else NULL
--   reason                    VARCHAR  why MFU is not reported; else NULL
--   measured_peak_flop_per_s  DOUBLE   measured peak GEMM rate for dtype, FLOP/s
--   measured_peak_mfu_pct     DOUBLE   MFU relative to measured peaks, percent
--   measured_peak_hfu_pct     DOUBLE   HFU relative to measured peaks, percent; NULL if source is parameters
--   measured_peak_source      VARCHAR
--   measured_peak_reason      VARCHAR  why measured_peak_mfu_pct is missing; else NULL
-- Keep:     rank, device, step, step_ns, flops, flop_per_s, mfu_pct, run_mfu_pct, at_least_mfu_pct, hfu_pct,
--           measured_peak_mfu_pct, measured_peak_hfu_pct, dtype, covered_pct
-- Invariant: (reason IS NULL) = (mfu_pct IS NOT NULL)
-- Invariant: hfu_pct IS NULL OR mfu_pct <= hfu_pct
-- Invariant: at_least_mfu_pct IS NULL OR mfu_pct IS NULL
-- Invariant: run_mfu_pct IS NULL OR mfu_pct IS NOT NULL
-- Invariant: (source IS NULL) = (flops IS NULL)
-- Invariant: (measured_peak_reason IS NULL) = (measured_peak_mfu_pct IS NOT NULL)
-- Invariant: measured_peak_hfu_pct IS NULL OR measured_peak_mfu_pct <= measured_peak_hfu_pct
-- Note: parameter counts exclude attention's own GEMMs and include all experts of a mixture of experts

WITH marked AS (
    SELECT DISTINCT trace_id
    FROM step_ranges
),

work AS (
    SELECT
        d.trace_id, d.device, d.step, d.phase, d.op_id,
        bool_or(has_flops(d.class)) AS is_heavy,
        bool_or(is_tf32_kernel(d.name)) AS is_tf32,
        sum(d.dur_ns)::BIGINT AS kernel_ns,
        coalesce(sum(d.dur_ns) FILTER (has_flops(d.class)), 0)::BIGINT
            AS heavy_ns
    FROM attributed_events AS d
    LEFT JOIN marked AS m USING (trace_id)
    WHERE d.kind = 'compute' AND (d.step IS NOT NULL OR m.trace_id IS NULL)
    GROUP BY d.trace_id, d.device, d.step, d.phase, d.op_id
),

costed AS (
    SELECT w.*, o.flops IS NOT NULL AS is_known, o.flops, computed_type(o.dtype, w.is_tf32) AS dtype
    FROM work AS w
    LEFT JOIN launched_op_costs AS o
        ON
            w.trace_id = o.trace_id AND w.op_id = o.op_id
            AND has_flops(o.op_class) AND o.flops IS NOT NULL
    WHERE w.is_heavy OR o.op_id IS NOT NULL
),

typed AS (
    SELECT
        c.trace_id, c.device, c.step, c.dtype,
        any_value(p.flop_per_s) AS peak_flop_per_s,
        any_value(p.source) AS peak_source,
        any_value(k.flop_per_s) AS measured_peak_flop_per_s,
        any_value(k.source) AS measured_peak_source,
        sum(c.flops)::BIGINT AS flops,
        coalesce(sum(c.flops) FILTER (c.phase = 'recompute'), 0)::BIGINT AS recompute_flops,
        sum(if(c.is_known, c.kernel_ns, c.heavy_ns))::BIGINT AS heavy_ns,
        coalesce(sum(c.kernel_ns) FILTER (c.is_known), 0)::BIGINT AS known_ns
    FROM costed AS c
    LEFT JOIN device_peak AS p
        ON c.trace_id = p.trace_id AND p.device IN (c.device, '*') AND c.dtype = p.dtype
    LEFT JOIN peak_rates('product') AS k
        ON c.trace_id = k.trace_id AND is_listed(k.device, c.device) AND c.dtype = k.dtype
    GROUP BY c.trace_id, c.device, c.step, c.dtype
),

unknown_op AS (
    SELECT
        c.trace_id, c.device, c.step,
        coalesce(o.name, 'no op') AS name,
        sum(c.heavy_ns)::BIGINT AS heavy_ns
    FROM costed AS c
    LEFT JOIN record AS o ON c.trace_id = o.trace_id AND c.op_id = o.event_id
    WHERE NOT c.is_known
    GROUP BY ALL
),

heavy AS (
    SELECT trace_id, device, step, sum(heavy_ns)::BIGINT AS heavy_ns
    FROM typed
    GROUP BY trace_id, device, step
),

unknown_ops AS (
    SELECT
        u.trace_id, u.device, u.step,
        array_to_string(
            list(
                format('{} {:.1f} %', u.name, 100.0 * u.heavy_ns / t.heavy_ns)
                ORDER BY u.heavy_ns DESC, u.name
            )[:3],
            ', '
        ) AS unknown_ops
    FROM unknown_op AS u
    INNER JOIN heavy AS t
        ON
            u.trace_id = t.trace_id
            AND u.device = t.device
            AND u.step IS NOT DISTINCT FROM t.step
    WHERE t.heavy_ns > 0
    GROUP BY u.trace_id, u.device, u.step
),

summed AS (
    SELECT
        trace_id, device, step,
        sum(flops)::BIGINT AS flops,
        sum(recompute_flops)::BIGINT AS recompute_flops,
        arg_max(dtype, (flops, dtype)) AS dtype,
        -- arg_max skips NULL and would return the rate of another type.
        arg_max_null(peak_flop_per_s, (flops, dtype)) FILTER (flops IS NOT NULL)
            AS peak_flop_per_s,
        string_agg(DISTINCT peak_source, '; ' ORDER BY peak_source) AS peak_source,
        arg_max_null(measured_peak_flop_per_s, (flops, dtype)) FILTER (flops IS NOT NULL)
            AS measured_peak_flop_per_s,
        arg_max_null(measured_peak_source, (flops, dtype)) FILTER (flops IS NOT NULL)
            AS measured_peak_source,
        100.0 * sum(known_ns)::BIGINT / nullif(sum(heavy_ns), 0)::BIGINT AS covered_pct,
        count(*) FILTER (dtype IS NOT NULL AND peak_flop_per_s IS NULL) AS unknown_peak_count,
        count(*) FILTER (dtype IS NOT NULL AND measured_peak_flop_per_s IS NULL)
            AS unknown_peak_rate_count,
        1e9 * sum(flops / peak_flop_per_s) AS ideal_ns,
        1e9 * sum((flops - recompute_flops) / peak_flop_per_s) AS model_ideal_ns,
        1e9 * sum(flops / measured_peak_flop_per_s) AS peak_ideal_ns,
        1e9 * sum((flops - recompute_flops) / measured_peak_flop_per_s) AS peak_model_ideal_ns
    FROM typed
    GROUP BY trace_id, device, step
),

span AS (
    SELECT
        w.trace_id, w.rank, w.device, s.step,
        coalesce(s.span_ns, w.window_ns) AS step_ns,
        coalesce(s.work_ns, w.window_ns) AS work_ns
    FROM device_windows AS w
    LEFT JOIN device_steps AS s USING (trace_id, device)
),

-- FLOPs per token: 2 N forward, 2 N for activation gradients, and 2 T for gradients of trained parameters. Tokens are
-- counted per data-parallel replica, because its tensor and pipeline ranks share the work.
manifest AS (
    SELECT
        t.trace_id, r.precision AS dtype,
        4 * r.parameter_count::HUGEINT
        + 2 * coalesce(r.trainable_parameter_count, r.parameter_count) AS token_flops,
        r.batch_size::HUGEINT * r.sequence_length * coalesce(r.gradient_accumulation, 1)
            AS token_count,
        greatest(r.tensor_size * r.pipeline_size, 1) AS part_count,
        try_cast(token_flops * token_count // part_count AS BIGINT) AS flops
    FROM trace AS t
    INNER JOIN run AS r USING (run_id)
    WHERE r.stage IN ('pretrain', 'finetune')
),

by_parameters AS (
    SELECT
        span.trace_id, span.device, span.step, m.dtype,
        any_value(p.flop_per_s) AS peak_flop_per_s,
        any_value(p.source) AS peak_source,
        any_value(k.flop_per_s) AS measured_peak_flop_per_s,
        any_value(k.source) AS measured_peak_source,
        any_value(m.flops) AS flops
    FROM span
    INNER JOIN manifest AS m USING (trace_id)
    LEFT JOIN device_peak AS p
        ON m.trace_id = p.trace_id AND p.device IN (span.device, '*') AND m.dtype = p.dtype
    LEFT JOIN peak_rates('product') AS k
        ON m.trace_id = k.trace_id AND is_listed(k.device, span.device) AND m.dtype = k.dtype
    WHERE span.step IS NOT NULL AND m.flops IS NOT NULL
    GROUP BY span.trace_id, span.device, span.step, m.dtype
),

judged AS (
    SELECT
        span.*,
        s.* EXCLUDE (trace_id, device, step),
        u.unknown_ops,
        peak_rate_gap(r.trace_id, r.reason) AS no_peak_rate,
        CASE
            WHEN s.covered_pct IS NULL THEN 'no GEMMs, attention, or convolutions'
            WHEN s.flops IS NULL
                THEN 'the operations of its ops are unknown: no shapes, or no ops'
        END AS not_counted, CASE
            WHEN s.covered_pct < $min_covered_pct
                THEN 'the operations of most such kernel time are unknown'
            WHEN span.step_ns = 0 THEN 'shorter than the clock resolution'
        END AS too_little, CASE
            WHEN unknown_peak(span.trace_id, span.device) IS NOT NULL
                THEN unknown_peak(span.trace_id, span.device)
            WHEN not_counted IS NOT NULL THEN not_counted
            WHEN s.unknown_peak_count > 0 THEN 'the device has no peak for one of the types'
            WHEN too_little IS NOT NULL THEN too_little
        END AS reason, CASE
            WHEN no_peak_rate IS NOT NULL THEN no_peak_rate
            WHEN not_counted IS NOT NULL THEN not_counted
            WHEN s.unknown_peak_rate_count > 0
                THEN 'no GEMM of one of the types was measured on this device'
            WHEN too_little IS NOT NULL THEN too_little
        END AS measured_peak_reason
    FROM span
    LEFT JOIN peak_rate_reasons('product') AS r
        ON span.trace_id = r.trace_id AND is_listed(r.device, span.device)
    LEFT JOIN summed AS s
        ON
            span.trace_id = s.trace_id
            AND span.device = s.device
            AND span.step IS NOT DISTINCT FROM s.step
    LEFT JOIN unknown_ops AS u
        ON
            span.trace_id = u.trace_id
            AND span.device = u.device
            AND span.step IS NOT DISTINCT FROM u.step
),

-- Fall back to parameter counts if shapes cover too little.
step_flops AS (
    SELECT
        j.rank, j.trace_id, j.device, j.step, j.step_ns, j.work_ns, j.covered_pct, j.unknown_ops,
        CASE
            WHEN
                p.flops IS NOT NULL
                AND (j.flops IS NULL OR coalesce(j.covered_pct, 0) < $min_covered_pct)
                THEN 'parameters'
            WHEN j.flops IS NOT NULL THEN 'shapes'
        END AS source,
        source = 'shapes' AND j.step_ns > 0 AND j.reason = j.too_little AS is_at_least,
        if(source = 'parameters', p.flops, j.flops) AS flops,
        if(source = 'parameters', NULL, j.recompute_flops) AS recompute_flops,
        if(source = 'parameters', p.dtype, j.dtype) AS dtype,
        if(source = 'parameters', p.peak_flop_per_s, j.peak_flop_per_s) AS peak_flop_per_s,
        if(source = 'parameters', p.peak_source, j.peak_source) AS peak_source,
        if(source = 'parameters', 1e9 * p.flops / p.peak_flop_per_s, j.model_ideal_ns)
            AS model_ideal_ns,
        if(source = 'parameters', NULL, j.ideal_ns) AS ideal_ns,
        if(source = 'parameters', p.measured_peak_flop_per_s, j.measured_peak_flop_per_s)
            AS measured_peak_flop_per_s,
        if(source = 'parameters', p.measured_peak_source, j.measured_peak_source)
            AS measured_peak_source,
        if(
            source = 'parameters',
            1e9 * p.flops / p.measured_peak_flop_per_s,
            j.peak_model_ideal_ns
        ) AS peak_model_ideal_ns,
        if(source = 'parameters', NULL, j.peak_ideal_ns) AS peak_ideal_ns,
        CASE
            WHEN source = 'shapes' OR source IS NULL OR j.step_ns = 0
                THEN j.reason
            WHEN p.peak_flop_per_s IS NULL
                THEN
                    if(
                        j.device = 'cpu',
                        'the peak of a CPU is unknown',
                        'the peak of this device for that type is unknown'
                    )
        END AS reason, CASE
            WHEN source = 'shapes' OR source IS NULL OR j.step_ns = 0 THEN j.measured_peak_reason
            WHEN p.measured_peak_flop_per_s IS NULL
                THEN coalesce(
                    j.no_peak_rate, 'no GEMM of that type was measured on this device'
                )
        END AS measured_peak_reason
    FROM judged AS j
    LEFT JOIN by_parameters AS p USING (trace_id, device, step)
),

trusted AS (
    SELECT
        * REPLACE (
            CASE
                WHEN reason IS NOT NULL THEN reason
                WHEN greatest(ideal_ns, model_ideal_ns) > step_ns
                    THEN
                        'more operations than the device can execute: its name, peak, or shapes '
                        || 'are wrong'
            END AS reason
        )
    FROM step_flops
)

SELECT
    rank, device, step, step_ns, work_ns, source, flops, recompute_flops, dtype, peak_flop_per_s,
    peak_source,
    1e9 * flops / nullif(step_ns, 0) AS flop_per_s,
    covered_pct,
    if(reason IS NULL, 100.0 * model_ideal_ns / step_ns, NULL) AS mfu_pct,
    if(reason IS NULL, 100.0 * ideal_ns / step_ns, NULL) AS hfu_pct,
    if(reason IS NULL, 100.0 * model_ideal_ns / nullif(work_ns, 0), NULL) AS work_mfu_pct,
    if(
        reason IS NULL AND step IS NOT NULL,
        100.0 * model_ideal_ns
        / (SELECT r.unprofiled_step_ns FROM run_idle AS r WHERE r.idle_pct IS NOT NULL),
        NULL
    ) AS run_mfu_pct,
    if(is_at_least, 100.0 * model_ideal_ns / step_ns, NULL) AS at_least_mfu_pct,
    unknown_ops, reason, measured_peak_flop_per_s,
    if(measured_peak_reason IS NULL, 100.0 * peak_model_ideal_ns / step_ns, NULL)
        AS measured_peak_mfu_pct,
    if(measured_peak_reason IS NULL, 100.0 * peak_ideal_ns / step_ns, NULL)
        AS measured_peak_hfu_pct,
    measured_peak_source, measured_peak_reason
FROM trusted
ORDER BY rank NULLS LAST, trace_id, device, step
