-- Optimizer steps with many small kernels that one fused kernel could replace.
-- Unfused Adam reads and writes 20 tensors per parameter, and fused Adam 7 (SGD with momentum: 8 and 5). On an H200,
-- fused Adam takes 0.35 to 0.55 times as long as foreach kernels. Kernels below 5 µs are launch-bound: fusion leaves a
-- tenth of their time. Of the host time in `Optimizer.step`, 2 to 10 % remain. On a CPU, temporaries cause page faults.
--
-- Kind:     advice
-- Scope:    run

WITH work AS (
    SELECT
        count(*) FILTER (piece = 0) AS work_count,
        count(*) FILTER (piece = 0 AND contains(op_name, '_foreach_')) AS foreach_count,
        count(*) FILTER (
            piece = 0 AND (contains(op_name, '_fused_') OR contains(name, 'FusedAdam'))
        ) AS fused_count,
        bool_or(op_name LIKE '%addcdiv_%') AS is_adam,
        bool_or(op_name LIKE '%mul_%') AS has_momentum,
        bool_or(device = 'cpu') AS is_cpu,
        median(dur_ns) AS median_ns,
        coalesce(sum(dur_ns) FILTER (dur_ns < 5000), 0)::BIGINT AS short_ns,
        sum(dur_ns)::BIGINT AS work_ns,
        count(DISTINCT trace_id || '/' || step) AS step_count,
        count(step) FILTER (piece = 0) AS step_work_count
    FROM attributed_events
    WHERE row_name = '(optimizer)' AND kind = 'compute'
),

-- Optimizers that have a fused kernel in torch (Adagrad: on CPU only).
named AS (
    SELECT
        count(*) > 0 AS has_range,
        mode(name) FILTER (
            name IN ('Adam', 'AdamW', 'SGD') OR (name = 'Adagrad' AND (SELECT is_cpu FROM work))
        ) AS optimizer
    FROM (
        SELECT regexp_extract(name, '^Optimizer\.step#(\w+)\.step', 1) AS name
        FROM annotations
        WHERE name LIKE 'Optimizer.step#%'
    ) AS a
),

idle AS (
    SELECT coalesce(sum(idle_ns), 0)::BIGINT AS idle_ns
    FROM idle_gap
    WHERE phase = 'optimizer' AND cause IN ('host_bound', 'launch_latency')
),

factor AS (
    SELECT
        *,
        if(is_adam, if(is_cpu, 0.35, 0.55), 0.63) AS fused,
        (0.1 * short_ns + fused * (work_ns - short_ns)) / work_ns AS remaining,
        (0.1 * short_ns + if(is_adam, 0.35, 0.63) * (work_ns - short_ns)) / work_ns AS least,
        CASE
            WHEN is_cpu AND has_range THEN 'range=Optimizer.step#* x{0:.3f}-{1:.3f}'
            WHEN has_range
                THEN 'module=(optimizer) x{0:.3f}-{1:.3f}; range=Optimizer.step#* x0.02-0.1'
            ELSE 'module=(optimizer) x{0:.3f}-{1:.3f}'
        END AS form
    FROM work, named, idle
)

SELECT
    format(
        'The optimizer runs {:,} kernels or ops{}{}: median {:,.1f} µs, total {}{}',
        work_count, of_ranks(),
        if(
            step_count > 0,
            format(' ({:,.0f} per optimizer step)', step_work_count / nullif(step_count, 0)), ''
        ),
        median_ns / 1e3, in_ms(work_ns),
        if(is_cpu OR idle_ns = 0, '', format(
            '. Late launches and launch latency leave the GPU idle for {} in the optimizer step',
            in_ms(idle_ns)
        ))
    ) AS what,
    if(
        foreach_count > 0, 'unfused optimizer (multi-tensor kernels)',
        'unfused optimizer (single-tensor ops)'
    ) AS place,
    format(form, if(is_cpu, 0.4, 1) * least, remaining) AS change,
    if(is_cpu, NULL, ((1 - least) * work_ns)::BIGINT + idle_ns) AS cost_ns,
    CASE
        WHEN coalesce(optimizer LIKE 'Adam%', is_adam)
            THEN
                'Use torch.optim.AdamW(..., fused=True) or '
                || 'TrainingArguments(optim="adamw_torch_fused")'
        ELSE format('Use torch.optim.{}(..., fused=True)', coalesce(optimizer, 'SGD'))
    END AS remedy,
    'tracekit pivot TRACE --rows op --where "phase = ''optimizer''"' AS evidence
FROM factor
WHERE
    work_count > 20
    AND fused_count * 2 < work_count
    AND (is_adam OR has_momentum)
    AND (optimizer IS NOT NULL OR NOT has_range)
