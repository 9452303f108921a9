-- What was each launch and op inside of: op, module, autograd node, phase?
-- Rows are the launches, the ops with a sequence number, and in traces without an accelerator all ops. An autograd
-- node leads to its forward op, and so to its module: by the same sequence number on the thread that its forward
-- thread stands for, the latest before the node. Forward threads are numbers of the profiler's own; the thread meant
-- is the one whose ops have most of the numbers.
--
-- Kind:     table
-- Requires: context_walk, range_marker
-- Columns:
--   trace_id       INTEGER  the trace
--   event_id       BIGINT   the launch or op
--   op_id          BIGINT   innermost op; an op is its own
--   module_id      INTEGER  innermost module, or the one of the node's forward op; NULL where none
--   node_id        BIGINT   the autograd node around it
--   forward_op_id  BIGINT   the forward op of the node
--   is_recompute   BOOLEAN  forward work that runs again for the backward pass
--   phase          VARCHAR  as the ranges, the node and the module tell; NULL where they do not
--   row_name       VARCHAR  row of modules that it belongs to beside all modules
--   is_weak_row    BOOLEAN  the row counts only outside of all modules
--   range_id       INTEGER  innermost user range, as in table module
--   part           VARCHAR  part of the module: rope, bmm0, softmax, bmm1
-- Invariant: phase IS NULL OR phase <> 'recompute' OR is_recompute

WITH numbered AS (
    SELECT
        trace_id,
        event_id,
        pid,
        tid,
        ts_ns,
        sequence_number,
        forward_thread
    FROM event
    WHERE sequence_number IS NOT NULL
),

placed AS (
    SELECT
        w.trace_id,
        w.event_id,
        w.op_id,
        w.node_id,
        w.is_recompute,
        w.is_in_grad_mode,
        w.phase,
        w.row_name,
        w.is_weak_row,
        m.module_id,
        r.module_id AS range_id,
        h.module_id AS hint_id,
        w.part_id
    FROM scratch.walked AS w
    LEFT JOIN scratch.walked_module AS m
        ON w.trace_id = m.trace_id AND w.module_number = m.number
    LEFT JOIN scratch.walked_module AS r
        ON w.trace_id = r.trace_id AND w.range_number = r.number
    LEFT JOIN scratch.walked_module AS h
        ON w.trace_id = h.trace_id AND w.hint_number = h.number
),

forward_op AS (
    SELECT
        n.*,
        p.module_id,
        p.range_id,
        p.part_id,
        p.is_recompute
    FROM numbered AS n
    INNER JOIN placed AS p ON n.trace_id = p.trace_id AND n.event_id = p.event_id
    WHERE p.node_id IS NULL OR (p.is_recompute AND p.node_id <> p.event_id)
),

node AS (
    SELECT n.*
    FROM numbered AS n
    SEMI JOIN placed AS p ON n.trace_id = p.trace_id AND n.event_id = p.node_id
),

node_number AS (
    SELECT DISTINCT
        trace_id,
        forward_thread,
        sequence_number
    FROM node
),

forward_number AS (
    SELECT
        trace_id,
        pid,
        tid,
        sequence_number,
        max(ts_ns) AS ts_ns
    FROM forward_op
    GROUP BY trace_id, pid, tid, sequence_number
),

vote AS (
    SELECT
        n.trace_id,
        n.forward_thread,
        f.pid,
        f.tid,
        count(*) AS match_count,
        max(f.ts_ns) AS latest_ts_ns
    FROM node_number AS n
    INNER JOIN forward_number AS f
        ON n.trace_id = f.trace_id AND n.sequence_number = f.sequence_number
    GROUP BY n.trace_id, n.forward_thread, f.pid, f.tid
),

forward_thread AS (
    SELECT DISTINCT ON (trace_id, forward_thread)
        trace_id,
        forward_thread,
        pid,
        tid
    FROM vote
    ORDER BY trace_id, forward_thread, match_count DESC, latest_ts_ns DESC, pid, tid
),

node_thread AS (
    SELECT
        n.trace_id,
        n.event_id,
        n.ts_ns,
        n.sequence_number,
        t.pid,
        t.tid
    FROM node AS n
    INNER JOIN forward_thread AS t
        ON n.trace_id = t.trace_id AND n.forward_thread = t.forward_thread
),

node_forward AS (
    SELECT
        n.trace_id,
        n.event_id AS node_id,
        f.event_id AS forward_op_id,
        f.module_id,
        f.range_id,
        f.part_id
    FROM node_thread AS n
    ASOF INNER JOIN forward_op AS f
        ON
            n.trace_id = f.trace_id
            AND n.pid = f.pid
            AND n.tid = f.tid
            AND n.sequence_number = f.sequence_number
            AND n.ts_ns >= f.ts_ns
),

resolved AS (
    SELECT
        p.trace_id,
        p.event_id,
        p.op_id,
        CASE
            WHEN p.row_name IS NOT NULL AND NOT p.is_weak_row THEN p.module_id
            WHEN p.node_id IS NULL OR p.is_recompute THEN coalesce(p.module_id, f.module_id)
            ELSE coalesce(f.module_id, p.module_id, p.hint_id)
        END AS module_id,
        p.node_id,
        f.forward_op_id,
        p.is_recompute,
        p.is_in_grad_mode,
        CASE
            WHEN p.phase = 'optimizer' THEN p.phase
            WHEN p.is_recompute THEN 'recompute'
            WHEN p.node_id IS NOT NULL THEN 'backward'
            WHEN p.phase IS NOT NULL THEN p.phase
            WHEN p.module_id IS NOT NULL THEN 'forward'
        END AS phase,
        p.row_name,
        p.is_weak_row,
        CASE
            WHEN p.node_id IS NULL OR p.is_recompute THEN coalesce(p.range_id, f.range_id)
            ELSE coalesce(f.range_id, p.range_id)
        END AS range_id,
        coalesce(f.part_id, p.part_id) AS part_id
    FROM placed AS p
    LEFT JOIN node_forward AS f ON p.trace_id = f.trace_id AND p.node_id = f.node_id
),

training AS (SELECT DISTINCT trace_id FROM scratch.walked WHERE node_id IS NOT NULL)

SELECT
    r.trace_id,
    r.event_id,
    r.op_id,
    r.module_id::INTEGER AS module_id,
    r.node_id,
    r.forward_op_id,
    r.is_recompute,
    CASE
        WHEN r.phase IS NULL AND r.is_in_grad_mode AND t.trace_id IS NOT NULL THEN 'forward'
        ELSE r.phase
    END AS phase,
    r.row_name,
    r.is_weak_row,
    r.range_id::INTEGER AS range_id,
    k.label AS part
FROM resolved AS r
LEFT JOIN training AS t ON r.trace_id = t.trace_id
LEFT JOIN range_marker AS k ON r.part_id = k.marker_id
ORDER BY r.trace_id, r.event_id
