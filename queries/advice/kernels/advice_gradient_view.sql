-- Copies of gradients out of the buckets of DistributedDataParallel.
--
-- Kind:     advice
-- Scope:    run

SELECT
    format(
        '{:,} copies of gradients out of their buckets{} take {}',
        count(*), of_ranks(), in_ms(sum(dur_ns))
    )
        AS what,
    'gradient copies of DistributedDataParallel' AS place,
    'module=(gradient?accumulation) op=aten::copy_ phase=backward remove' AS change,
    sum(dur_ns)::BIGINT AS cost_ns,
    'Use DistributedDataParallel(..., gradient_as_bucket_view=True), which makes gradients '
    || 'views of the buckets'
        AS remedy,
    'tracekit query modules TRACE --phase backward' AS evidence
FROM attributed_events
WHERE
    row_name = '(gradient accumulation)' AND op_name = 'aten::copy_' AND phase = 'backward'
    AND copy_of(class) = 'd2d'
    AND EXISTS (FROM annotations WHERE name = 'DistributedDataParallel.forward')
HAVING sum(dur_ns) > 0
