-- Launch context: op, module, autograd node, and ranges around each launch and op.
-- Rows are launches, ops with a sequence number, all ops in traces without an accelerator, and allocator events. The
-- forward op of an autograd node is the latest earlier op with the same sequence number on its forward thread, and
-- provides its module. Nodes name that thread by a profiler number: it is the thread whose ops have most of the
-- sequence numbers. If the backward pass is itself differentiated (create_graph=True), nodes are linked to ops of the
-- first forward pass.
--
-- Kind:     table
-- Input:    scratch.walked
-- Columns:
--   trace_id           INTEGER -> trace
--   event_id           BIGINT -> record                   launch, op, or allocator event
--   op_id              BIGINT -> record.event_id          innermost op; for an op, the op itself
--   node_id            BIGINT -> record.event_id          autograd node around the event
--   forward_op_id      BIGINT -> record.event_id          forward op of the node, by sequence number
--   is_recompute       BOOLEAN                            forward work recomputed for the backward pass
--   is_derivative      BOOLEAN                            work of a backward pass that is itself differentiated
--   is_in_grad_mode    BOOLEAN                            in an op with a sequence number, so grad mode is on
--   module_id          INTEGER -> module
--   module_source      VARCHAR                            source of the module, as in module
--   forward_module_id  INTEGER -> module.module_id        module of the forward op
--   hook_module_id     INTEGER -> module.module_id        module named by a backward hook around the event
--   range_id           INTEGER -> module.module_id        innermost user range around the event, as in module
--   forward_range_id   INTEGER -> module.module_id        user range of the forward op
--   is_unmarked        BOOLEAN                            no user range around the event, except from torch.compile
--   phase_marker_id    INTEGER -> range_marker.marker_id  innermost range, call, or op around the event with a phase in its name
--   marked_phase       VARCHAR                            phase in the name of that marker
--   row_marker_id      INTEGER -> range_marker.marker_id  innermost range, call, or op around the event that determines a row_name
--   marked_row         VARCHAR                            row_name of that marker
--   is_weak_row        BOOLEAN                            that row_name applies only outside modules
--   module_part        VARCHAR                            part of the module: rope, bmm0, softmax, or bmm1
-- Invariant: (marked_phase IS NULL) = (phase_marker_id IS NULL)
-- Invariant: (marked_row IS NULL) = (row_marker_id IS NULL) AND (marked_row IS NULL) = (is_weak_row IS NULL)
-- Invariant: node_id IS NOT NULL OR (forward_op_id IS NULL AND forward_module_id IS NULL AND forward_range_id IS NULL)

WITH numbered AS (
    SELECT
        trace_id, event_id, pid, tid, ts_ns, dur_ns, external_id, sequence_number, forward_thread
    FROM event
    WHERE sequence_number IS NOT NULL
),

-- Nodes that recompute nothing although ops in them have sequence numbers: the backward pass is
-- differentiated (is_in_grad_mode), or the node only calls Functions.
plain_node AS (
    SELECT trace_id, node_id, is_in_grad_mode
    FROM scratch.walked
    WHERE event_id IS NULL AND node_id IS NOT NULL
),

surrounded AS (
    SELECT
        w.trace_id, w.event_id, w.op_id, w.node_id,
        w.is_recompute AND n.node_id IS NULL AS is_recompute,
        coalesce(n.is_in_grad_mode, FALSE) AS is_derivative,
        w.is_in_grad_mode, w.phase_marker_id, w.row_marker_id, m.module_id,
        m.source AS module_source, r.module_id AS range_id,
        r.path IS NULL OR starts_with(r.path, 'Torch-Compiled Region: ') AS is_unmarked,
        h.module_id AS hook_module_id, w.part_marker_id
    FROM scratch.walked AS w
    LEFT JOIN plain_node AS n
        ON w.is_numbered AND w.trace_id = n.trace_id AND w.node_id = n.node_id
    LEFT JOIN scratch.walked_module AS m
        ON w.trace_id = m.trace_id AND w.module_number = m.number
    LEFT JOIN scratch.walked_module AS r
        ON w.trace_id = r.trace_id AND w.range_number = r.number
    LEFT JOIN scratch.walked_module AS h
        ON w.trace_id = h.trace_id AND w.hook_number = h.number
    WHERE w.event_id IS NOT NULL
),

-- Of ops that start at the same time, the innermost op comes last, as in table nesting.
forward_op AS (
    SELECT DISTINCT ON (trace_id, pid, tid, sequence_number, n.ts_ns)
        n.*,
        p.module_id, p.range_id, p.part_marker_id,
        CASE WHEN p.is_derivative THEN p.node_id END AS first_node_id
    FROM numbered AS n
    INNER JOIN surrounded AS p USING (trace_id, event_id)
    WHERE p.node_id IS NULL OR ((p.is_recompute OR p.is_derivative) AND p.node_id <> p.event_id)
    ORDER BY
        trace_id, pid, tid, sequence_number, n.ts_ns,
        n.dur_ns, n.external_id DESC, n.event_id DESC
),

node AS (
    SELECT n.*
    FROM numbered AS n
    SEMI JOIN surrounded AS p ON n.trace_id = p.trace_id AND n.event_id = p.node_id
),

node_number AS (
    SELECT DISTINCT trace_id, forward_thread, sequence_number
    FROM node
),

forward_number AS (
    SELECT trace_id, pid, tid, sequence_number, max(ts_ns) AS ts_ns
    FROM forward_op
    GROUP BY trace_id, pid, tid, sequence_number
),

vote AS (
    SELECT
        n.trace_id, n.forward_thread, f.pid, f.tid,
        count(*) AS match_count,
        max(f.ts_ns) AS latest_ts_ns
    FROM node_number AS n
    INNER JOIN forward_number AS f USING (trace_id, sequence_number)
    GROUP BY n.trace_id, n.forward_thread, f.pid, f.tid
),

forward_thread AS (
    SELECT DISTINCT ON (trace_id, forward_thread)
        trace_id, forward_thread, pid, tid
    FROM vote
    ORDER BY trace_id, forward_thread, match_count DESC, latest_ts_ns DESC, pid, tid
),

node_thread AS (
    SELECT n.trace_id, n.event_id, n.ts_ns, n.sequence_number, t.pid, t.tid
    FROM node AS n
    INNER JOIN forward_thread AS t USING (trace_id, forward_thread)
),

own_forward AS (
    SELECT
        n.trace_id, n.event_id AS node_id, f.event_id AS forward_op_id, f.module_id, f.range_id,
        f.part_marker_id, f.first_node_id
    FROM node_thread AS n
    ASOF INNER JOIN forward_op AS f USING (trace_id, pid, tid, sequence_number, ts_ns)
),

-- Follow each node to the node it differentiates, until a node of a forward op. Stop after eight
-- orders of differentiation: the cost is quadratic, and malformed files may claim thousands.
first_forward AS (
    WITH RECURSIVE back AS (
        SELECT trace_id, node_id, first_node_id, 2 AS derivative_order
        FROM own_forward
        WHERE first_node_id IS NOT NULL
        UNION ALL
        SELECT b.trace_id, b.node_id, o.first_node_id, b.derivative_order + 1 AS derivative_order
        FROM back AS b
        INNER JOIN own_forward AS o ON b.trace_id = o.trace_id AND b.first_node_id = o.node_id
        WHERE o.first_node_id IS NOT NULL AND b.derivative_order < 8
    )

    SELECT b.trace_id, b.node_id, o.module_id, o.range_id, o.part_marker_id
    FROM back AS b
    INNER JOIN own_forward AS o ON b.trace_id = o.trace_id AND b.first_node_id = o.node_id
    WHERE o.first_node_id IS NULL
),

node_forward AS (
    SELECT
        o.trace_id, o.node_id, o.forward_op_id,
        coalesce(o.module_id, f.module_id) AS module_id,
        coalesce(o.range_id, f.range_id) AS range_id,
        coalesce(o.part_marker_id, f.part_marker_id) AS part_marker_id
    FROM own_forward AS o
    LEFT JOIN first_forward AS f USING (trace_id, node_id)
)

SELECT
    s.trace_id, s.event_id, s.op_id, s.node_id, f.forward_op_id, s.is_recompute, s.is_derivative,
    s.is_in_grad_mode,
    s.module_id::INTEGER AS module_id,
    s.module_source,
    f.module_id::INTEGER AS forward_module_id,
    s.hook_module_id::INTEGER AS hook_module_id,
    s.range_id::INTEGER AS range_id,
    f.range_id::INTEGER AS forward_range_id,
    s.is_unmarked,
    s.phase_marker_id::INTEGER AS phase_marker_id,
    phase_marker.phase AS marked_phase,
    s.row_marker_id::INTEGER AS row_marker_id,
    row_marker.row_name AS marked_row, row_marker.is_weak AS is_weak_row,
    part_marker.label AS module_part
FROM surrounded AS s
LEFT JOIN node_forward AS f USING (trace_id, node_id)
LEFT JOIN range_marker AS phase_marker ON s.phase_marker_id = phase_marker.marker_id
LEFT JOIN range_marker AS row_marker ON s.row_marker_id = row_marker.marker_id
LEFT JOIN range_marker AS part_marker
    ON coalesce(f.part_marker_id, s.part_marker_id) = part_marker.marker_id
ORDER BY s.trace_id, s.event_id
