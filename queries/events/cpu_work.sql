-- Self time of CPU ops, which counts as device work in traces without accelerator work.
-- Time belongs to the innermost open op, so an op that nested work interrupts has several pieces. A collective is
-- always one piece. Autograd nodes and Python ranges are host time and count as idle. The SELECT is the input of
-- native/passes/self_time.c. It tracks the nesting depth per thread, so no time is lost if ops overlap without nesting. If an
-- accelerator was used but its work was not recorded, runtime calls are included too.
--
-- Kind:     table
-- Access:   private
-- Input:    accelerator WHERE accelerator = 'cpu' OR NOT is_recorded
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> event, piece BIGINT, tid BIGINT, ts_ns BIGINT
--   dur_ns BIGINT
-- Invariant: dur_ns > 0

SELECT
    trace_id, pid, tid, event_id, ts_ns,
    ts_ns + dur_ns AS end_ns, CASE
        WHEN is_annotation(category) OR is_launch_call(category) THEN 1
        WHEN name LIKE 'autograd::%' OR name LIKE 'torch::autograd::%' THEN 0
        WHEN name LIKE '%::%' THEN 1
        ELSE 0
    END AS is_work,
    CASE WHEN name LIKE 'c10d::%' OR is_annotation(category) THEN 1 ELSE 0 END AS is_collective
FROM event
WHERE
    trace_id IN (SELECT trace_id FROM accelerator WHERE accelerator = 'cpu' OR NOT is_recorded)
    AND dur_ns > 0
    AND (
        is_op(category)
        OR (
            is_launch_call(category)
            AND trace_id IN (SELECT trace_id FROM accelerator WHERE NOT is_recorded)
        )
        OR (is_annotation(category) AND regexp_matches(name, '^(gloo|mpi|ucc|ccl|xccl):'))
    )
-- If spans have the same start and end, the outer one comes first, as in table nesting, whatever
-- their order in the file.
ORDER BY
    trace_id, pid, tid, ts_ns, dur_ns DESC,
    CASE WHEN is_annotation(category) THEN 1 WHEN is_op(category) THEN 2 ELSE 3 END,
    CASE WHEN is_op(category) THEN external_id END,
    name DESC, event_id
