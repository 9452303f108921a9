-- What does recomputation cost?
-- Activations are computed a second time in the backward pass to save memory. Whether the memory is there, the trace
-- says only where it has what the allocator holds.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, attributed_events, memory, device
-- Columns:
--   what      VARCHAR  what was seen
--   place     VARCHAR  where
--   change    VARCHAR  what `tracekit predict` is asked, changes with "; " between them; NULL where it is not recorded
--   at_most   VARCHAR  the same for the upper end of the gain; NULL where that is no other
--   cost_ns   BIGINT   how long that took, ns; NULL where it is not known
--   remedy    VARCHAR  what to do
--   evidence  VARCHAR  the command that shows it
-- Invariant: cost_ns IS NULL OR cost_ns > 0

WITH work AS (
    SELECT sum(dur_ns)::BIGINT AS work_ns
    FROM attributed_events
    WHERE phase = 'recompute'
),

kept AS (
    SELECT max(total_reserved_bytes) AS reserved_bytes
    FROM memory
),

whole AS (
    SELECT min(total_memory_bytes) AS memory_bytes
    FROM device
    WHERE total_memory_bytes > 0
)

SELECT
    format('{} of work is recomputation', in_ms(work_ns))
    || if(
        kept.reserved_bytes > 0 AND whole.memory_bytes > 0,
        format(
            '; the allocator keeps {:.1f} of {:.1f} GiB at most', kept.reserved_bytes / (1 << 30),
            whole.memory_bytes / (1 << 30)
        ), ''
    ) AS what,
    'phase recompute' AS place,
    'phase=recompute remove; host phase=recompute remove' AS change,
    NULL::VARCHAR AS at_most,
    work_ns AS cost_ns,
    'no gradient checkpointing, or of fewer layers, where memory allows '
    || '(model.gradient_checkpointing_disable(); collect --opt without R)'
    || if(
        whole.memory_bytes > 0 AND kept.reserved_bytes IS NULL,
        '; profile_memory=True records what is left', ''
    ) AS remedy,
    'tracekit query phases TRACE' AS evidence
FROM work, kept, whole
WHERE work_ns > 0
