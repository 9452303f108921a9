-- Evidence for attribution in each trace: training, modules, and phases.
--
-- Kind:     table
-- Columns:
--   trace_id     INTEGER -> trace
--   is_training  BOOLEAN  autograd nodes ran
--   has_modules  BOOLEAN  the module is known for at least one launch, op, or annotated kernel
--   has_phases   BOOLEAN  a range or annotation names the phase of at least one launch, op, or kernel

SELECT
    trace.trace_id,
    coalesce(bool_or(s.node_id IS NOT NULL), FALSE) AS is_training,
    coalesce(
        bool_or(
            coalesce(s.module_id, s.forward_module_id) IS NOT NULL
            OR (s.node_id IS NOT NULL AND NOT s.is_recompute AND s.hook_module_id IS NOT NULL)
        ) FILTER (s.is_weak_row IS DISTINCT FROM FALSE),
        FALSE
    )
    OR trace.trace_id IN (SELECT trace_id FROM kernel_annotation WHERE module_id IS NOT NULL)
        AS has_modules,
    coalesce(bool_or(s.marked_phase IS NOT NULL OR s.is_recompute), FALSE)
    OR trace.trace_id IN (SELECT trace_id FROM kernel_annotation WHERE phase IS NOT NULL)
        AS has_phases
FROM trace
LEFT JOIN launch_context AS s USING (trace_id)
GROUP BY trace.trace_id
ORDER BY trace.trace_id
