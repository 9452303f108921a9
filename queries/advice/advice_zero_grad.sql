-- Are gradients set to zero by kernels?
-- Optimizer.zero_grad(set_to_none=False): each gradient is written once more, and the next backward pass adds to it
-- instead of writing it.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, attributed_events, annotations
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
    format('{} kernels or ops set gradients to zero, {}', count(*), in_ms(sum(a.dur_ns))) AS what,
    'Optimizer.zero_grad' AS place,
    'range=Optimizer.zero_grad#* remove' AS change,
    NULL::VARCHAR AS at_most,
    sum(a.dur_ns)::BIGINT AS cost_ns,
    'optimizer.zero_grad(set_to_none=True), which is the default' AS remedy,
    'tracekit query modules TRACE --phase optimizer' AS evidence
FROM attributed_events AS a
WHERE a.row_name = '(zero_grad)'
HAVING sum(a.dur_ns) > 0
