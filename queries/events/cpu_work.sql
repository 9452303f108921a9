-- In a trace without work of an accelerator: what did each thread of the CPU work on, moment by moment?
-- Every moment of a thread belongs to the innermost op that is open, so an op has as many pieces as the ops inside it
-- leave of it. A collective is one piece, whatever runs inside (what outlasts it has its rest): c10d ops on the calling
-- thread, and the spans of gloo and its like on the threads of the backend. Autograd's nodes and the ranges of Python
-- functions are no work: time that is theirs alone is the host's, and so idle.
-- Opening and closing an op are +1 and -1 to the depth of its thread; a moment's owner is the op that last brought
-- the thread to the depth it has. So ops that do not nest cleanly lose nothing.
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
-- Note: where it is compiled, native/self_time.c makes these rows: a change of this SQL is made there too

WITH swept AS (
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
),

placed AS (SELECT *, row_number() OVER () AS place FROM swept),

free_span AS (
    SELECT
        *,
        greatest(ts_ns, coalesce(latest_end_before_ns(
            (trace_id, pid, tid), ts_ns, CASE WHEN is_collective = 1 THEN end_ns END, place
        ), ts_ns)) AS from_ns
    FROM placed
),

open_span AS (
    SELECT
        {trace_id: trace_id, pid: pid, tid: tid} AS part,
        -- A number sorts faster than a struct.
        place * 2 + is_work AS id,
        from_ns AS start_ns, end_ns
    FROM free_span
    WHERE from_ns < end_ns
)

SELECT
    free_span.trace_id, free_span.event_id,
    row_number() OVER (PARTITION BY own.id ORDER BY own.start_ns) - 1 AS piece,
    free_span.tid, own.start_ns AS ts_ns,
    own.end_ns - own.start_ns AS dur_ns
FROM interval_self('open_span') AS own
INNER JOIN free_span ON own.id // 2 = free_span.place
WHERE own.id % 2 = 1
ORDER BY free_span.trace_id, own.start_ns, own.end_ns, free_span.event_id
