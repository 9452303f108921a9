-- Calls that make the host wait for the GPU.
-- Rows are ops, or runtime calls outside ops, with the Python lines that read the value. Excludes host-to-device copies
-- (see `advice_copies`) and waits without a later launch.
--
-- Kind:     advice
-- Scope:    run
-- Input:    sync_waits

WITH places AS (
    SELECT
        if(op IS NULL, call, NULL) AS call,
        op, is_tested, python_line,
        coalesce(python_line, 'after ' || after_op) AS place,
        sum(wait_count)::BIGINT AS wait_count,
        max(step_count) AS step_count,
        sum(wait_ns)::BIGINT AS wait_ns
    FROM sync_waits
    GROUP BY ALL
),

summed AS (
    SELECT
        call, op,
        sum(wait_count)::BIGINT AS wait_count,
        sum(wait_ns)::BIGINT AS wait_ns,
        arg_max(python_line, wait_ns) AS python_line,
        -- Suggest nothing for a kind of call that causes at most 10 % of the wait.
        sum(if(is_tested, wait_ns, 0)) > 0.1 * sum(wait_ns) AS has_tests,
        sum(if(is_tested, 0, wait_ns)) > 0.1 * sum(wait_ns) AS has_reads,
        string_agg(
            format(
                '{} ({}, {})',
                concat_ws(
                    ' ', if(is_tested, '`if tensor:`', if(op IS NULL, NULL, '.item()')), place
                ),
                CASE
                    WHEN step_count > 0 AND wait_count % step_count = 0
                        THEN format('{:,} per step', wait_count // step_count)
                    WHEN step_count > 0 THEN format('{:,} in {:,} steps', wait_count, step_count)
                    ELSE format('{:,}×', wait_count)
                END,
                in_ms(wait_ns)
            ), ', ' ORDER BY wait_ns DESC, place
        ) FILTER (place IS NOT NULL OR is_tested) AS list
    FROM places
    GROUP BY call, op
)

SELECT
    format(
        'The host waits for the GPU in {}: {:,}×, {} in total{}{}', coalesce(op, call), wait_count,
        in_ms(wait_ns), of_ranks(), coalesce('; ' || list, '')
    ) AS what,
    'GPU sync: '
    || coalesce(
        python_line,
        if(op LIKE '%_local_scalar_dense' AND NOT has_reads, '`if tensor:`', NULL), op, call
    ) AS place,
    if(
        op IS NULL, format('sync name={} remove', chosen_name(call)),
        format('sync op={} remove', chosen_name(op))
    ) AS change,
    wait_ns AS cost_ns,
    CASE
        WHEN op IN ('aten::_local_scalar_dense', 'aten::item')
            THEN
                concat_ws(
                    ' ',
                    if(
                        has_reads,
                        'Keep the value on the GPU: accumulate it there and call .item() every '
                        || '100 steps. Avoid float(tensor) and print(tensor) in the loop.', NULL
                    ),
                    if(
                        has_tests,
                        'Avoid `if tensor:`. Decide on the host, where lengths and masks are '
                        || 'known before they are copied, and pass attention_mask and position_ids '
                        || 'to the model.', NULL
                    )
                )
        WHEN op IN ('aten::nonzero', 'aten::index', 'aten::masked_select')
            THEN
                'Avoid shapes that depend on values: use torch.where, or multiply by the mask '
                || 'instead of x[mask]'
        WHEN op LIKE 'aten::%linalg%'
            THEN 'Run it every n steps, or on fewer, larger batches of matrices'
        WHEN op IS NOT NULL
            THEN
                'Copy at the end, or with non_blocking=True to pinned memory and read it later'
        ELSE 'Remove torch.cuda.synchronize() from the loop, and time with torch.cuda.Event'
    END AS remedy,
    'tracekit query sync_waits TRACE' AS evidence
FROM summed
WHERE wait_ns > 0
ORDER BY wait_ns DESC, place
LIMIT 4
