-- Kernels that set gradients to zero.
-- With `zero_grad(set_to_none=False)`, a kernel writes zeros to each gradient, and the next backward pass adds to the
-- gradient instead of overwriting it.
--
-- Kind:     advice
-- Scope:    run

SELECT
    format(
        '{:,} kernels or ops set gradients to zero ({}{})',
        count(*) FILTER (a.piece = 0), in_ms(sum(a.dur_ns)), of_ranks()
    ) AS what,
    'gradients filled with zeros' AS place,
    'range=Optimizer.zero_grad#* remove' AS change,
    sum(a.dur_ns)::BIGINT AS cost_ns,
    'Use optimizer.zero_grad(set_to_none=True), which is the default' AS remedy,
    'tracekit query modules TRACE --phase optimizer' AS evidence
FROM attributed_events AS a
WHERE a.row_name = '(zero_grad)'
HAVING sum(a.dur_ns) > 0
