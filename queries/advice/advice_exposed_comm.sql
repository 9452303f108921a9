-- Which communication is not overlapped with compute?
-- Gradients are reduced while nothing is computed. Hidden behind the backward pass, only the optimizer waits for them.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, collective_events
-- Columns:
--   what      VARCHAR  what was seen
--   place     VARCHAR  where
--   change    VARCHAR  what `tracekit predict` is asked, changes with "; " between them; NULL where it is not recorded
--   at_most   VARCHAR  the same for the upper end of the gain; NULL where that is no other
--   cost_ns   BIGINT   how long that took, ns; NULL where it is not known
--   remedy    VARCHAR  what to do
--   evidence  VARCHAR  the command that shows it
-- Invariant: cost_ns IS NULL OR cost_ns > 0

SELECT
    format('{} of {} in {} collectives is exposed', in_ms(sum(wall_ns)), class, count(*)) AS what,
    'phase backward' AS place,
    'overlap' AS change,
    NULL::VARCHAR AS at_most,
    sum(wall_ns)::BIGINT AS cost_ns,
    if(
        class IN ('comm_allreduce', 'comm_reduce'),
        'begin to reduce during the backward pass: DistributedDataParallel(bucket_cap_mb=…, '
        || 'gradient_as_bucket_view=True), parameters in the order in which they are used',
        'overlap_comm=True (DeepSpeed), prefetching (FSDP: set_modules_to_backward_prefetch)'
    ) AS remedy,
    'tracekit query communication TRACE' AS evidence
FROM collective_events
WHERE phase = 'backward' AND wall_ns > 0
GROUP BY class
ORDER BY cost_ns DESC, class
LIMIT 1
