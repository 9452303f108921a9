-- In a trace without work of an accelerator: what did each thread of the CPU work on, moment by moment?
-- Every moment of a thread belongs to the innermost op that is open, so an op has as many pieces as the ops inside it
-- leave of it. A collective is one piece, whatever runs inside (what outlasts it has its rest): c10d ops on the calling
-- thread, and the spans of gloo and its like on the threads of the backend. Autograd's nodes and the ranges of Python
-- functions are no work: time that is theirs alone is the host's, and so idle.
-- native/self_time.c follows the depth of each thread, which opening and closing an op change by one; a moment's owner
-- is the op that last brought the thread to the depth it has. So ops that do not nest cleanly lose nothing.
-- In a trace of the CPU alone, this is the work of its device. Where the work of an accelerator was not recorded it is
-- not, and runtime calls are work of the host too.
--
-- Kind:     table
-- Access:   private
-- Input:    accelerator WHERE accelerator = 'cpu' OR NOT is_recorded
-- Columns:
--   trace_id  INTEGER -> trace  the trace
--   event_id  BIGINT -> event   the op or span
--   piece     BIGINT            number of the piece of the op, from 0
--   tid       BIGINT            thread id
--   ts_ns     BIGINT            start of the piece, ns
--   dur_ns    BIGINT            length of the piece, ns
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
-- Of equal spans the outer one is as in view nesting, whatever their order in the file.
ORDER BY
    trace_id, pid, tid, ts_ns, dur_ns DESC,
    CASE WHEN is_annotation(category) THEN 1 WHEN is_op(category) THEN 2 ELSE 3 END,
    CASE WHEN is_op(category) THEN external_id END,
    name DESC, event_id
