-- What does recomputation cost?
-- Activations are computed a second time in the backward pass to save memory. Whether the memory is there, the trace
-- says only where it has what the allocator holds.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, attributed_events
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
    format('{} of work is recomputation', in_ms(sum(dur_ns))) AS what,
    'phase recompute' AS place,
    'phase=recompute remove; host phase=recompute remove' AS change,
    NULL::VARCHAR AS at_most,
    sum(dur_ns)::BIGINT AS cost_ns,
    'no gradient checkpointing, or of fewer layers, where memory allows '
    || '(model.gradient_checkpointing_disable(); collect --opt without R)' AS remedy,
    'tracekit query phases TRACE' AS evidence
FROM attributed_events
WHERE phase = 'recompute'
HAVING sum(dur_ns) > 0
