-- Launch, op, module, phase, and step of each device event, with the deciding rules and reasons.
-- The first matching rule of `attribution_rules` decides. If the launch context of an event in a training trace does
-- not determine its phase, the phase comes from adjacent launches (`adjacent_launches`). An event without a recorded
-- launch is attributed like a matching event with a launch (`repeated_launches`). Otherwise, its name decides, if all
-- events of that name ran in one phase. All other work has phase `other` and row_name (unattributed).
--
-- Kind:     table
-- Input:    device_events
-- Columns:
--   trace_id         INTEGER -> trace
--   event_id         BIGINT -> event            device event
--   piece BIGINT, launch_id BIGINT -> event.event_id
--   launch_delay_ns  BIGINT                     time from the end of the launch to the start on the device, ns; negative if the work started earlier
--   link VARCHAR, op_id BIGINT -> record.event_id, op_name VARCHAR
--   op_class         VARCHAR                    kernel class by name and op (class_by_op)
--   module_id INTEGER -> module, row_name VARCHAR
--   module_reason    VARCHAR                    how module_id or row_name is known, as in attribution_reasons()
--   module_rule      INTEGER                    deciding rule, as in attribution_rules(); NULL if none
--   phase            VARCHAR                    phase; other if unknown
--   phase_reason     VARCHAR                    how the phase is known, as in attribution_reasons()
--   phase_rule       INTEGER                    deciding rule, as in attribution_rules(); NULL if none
--   step             BIGINT -> step_ranges      step whose range on the host contains the launch
--   like_event_id    BIGINT -> event.event_id   for an event without a launch, the matching event with a launch (repeated_launches); else NULL
--   captured_id      BIGINT -> record.event_id  captured call that provides the op and module of an event in a graph replay
--   is_inferred      BOOLEAN                    phase, module, or row_name does not come from the launch context
-- Invariant: (module_id IS NULL) <> (row_name IS NULL)
-- Invariant: (launch_id IS NULL) = (link IN ('before_window', 'missing_launch'))
-- Invariant: (phase_reason = 'none') = (phase = 'other')
-- Invariant: (module_reason = 'none') = (row_name IS NOT DISTINCT FROM '(unattributed)')

-- Threads that have launches but no other events, in traces with ops. torch records ops only on
-- threads that it knows.
WITH launch_without_op AS (
    SELECT l.trace_id, l.launch_id
    FROM launch AS l
    INNER JOIN trace_traits AS t ON l.trace_id = t.trace_id AND NOT t.is_training
    SEMI JOIN event_kind AS k ON l.trace_id = k.trace_id AND is_op(k.category)
    ANTI JOIN event AS e
        ON
            l.trace_id = e.trace_id
            AND l.pid = e.pid
            AND l.tid = e.tid
            AND (is_op(e.category) OR is_annotation(e.category) OR is_python_call(e.category))
),

launch_fact AS (
    SELECT
        k.*,
        d.device, d.ts_ns, d.name, d.class, d.kind,
        c.call_id AS captured_id,
        coalesce(a.phase, c.replay_phase) AS replay_phase,
        a.module_id IS NOT NULL AS is_placed_by_annotation,
        a.phase IS NOT NULL AS has_annotated_phase,
        a.op_name AS annotated_op_name,
        c.call_id IS NOT NULL AND coalesce(
            s.module_id, s.forward_module_id, s.hook_module_id, s.range_id, s.forward_range_id,
            s.row_marker_id
        ) IS NOT NULL AS is_placed_by_capture,
        if(c.call_id IS NULL, s.op_id, c.op_id) AS op_id,
        -- The launch context of the replay takes precedence over the phase of the capture. A phase or
        -- module in the annotation of the kernel overrides both.
        coalesce(c.replay_phase, a.phase, a.module_id::VARCHAR) IS NOT NULL AS tells_itself,
        if(tells_itself, NULL, s.node_id) AS node_id,
        s.is_recompute AND NOT tells_itself AS is_recompute,
        s.is_in_grad_mode,
        coalesce(
            a.module_id,
            if(is_placed_by_capture, s.module_id, coalesce(c.replay_module_id, s.module_id))
        ) AS module_id,
        if(
            a.module_id IS NOT NULL,
            'tk',
            if(is_placed_by_capture, s.module_source, coalesce(c.replay_source, s.module_source))
        ) AS module_source,
        if(a.module_id IS NULL, s.forward_module_id, NULL) AS forward_module_id,
        s.hook_module_id,
        if(is_placed_by_capture, s.range_id, coalesce(c.replay_range_id, s.range_id)) AS range_id,
        s.forward_range_id,
        coalesce(s.is_unmarked, TRUE) AND q.launch_id IS NULL AS is_unmarked,
        coalesce(a.phase, c.replay_phase, s.marked_phase, g.phase) AS marked_phase,
        g.phase IS NOT NULL AS has_phase_of_length,
        if(a.module_id IS NULL, s.marked_row, NULL) AS marked_row,
        if(a.module_id IS NULL, s.is_weak_row, NULL) AS is_weak_row,
        t.is_training, t.has_modules, t.has_phases,
        n.label_before, n.label_after, n.is_proven_forward, n.is_on_node_thread,
        n.is_on_engine_thread, n.is_model_block,
        n.is_clipping,
        coalesce(n.is_evaluation, FALSE) AS is_evaluation,
        o.phase AS kernel_phase,
        coalesce(o.is_named, FALSE) AS is_named_kernel,
        o.event_id IS NOT NULL AS is_ordered_kernel
    FROM launch_link AS k
    INNER JOIN device_events AS d USING (trace_id, event_id, piece)
    INNER JOIN trace_traits AS t USING (trace_id)
    LEFT JOIN replayed_event AS c USING (trace_id, event_id)
    LEFT JOIN kernel_annotation AS a USING (trace_id, event_id)
    LEFT JOIN launch_context AS s
        ON k.trace_id = s.trace_id AND coalesce(c.call_id, k.launch_id) = s.event_id
    LEFT JOIN adjacent_launches AS n USING (trace_id, launch_id)
    LEFT JOIN launch_without_op AS q USING (trace_id, launch_id)
    LEFT JOIN generating_launch AS g USING (trace_id, launch_id)
    LEFT JOIN kernel_order AS o USING (trace_id, event_id, piece)
    WHERE k.launch_id IS NOT NULL
),

with_input AS (
    SELECT
        *,
        -- Host-to-device copies of model inputs: outside modules and autograd, and in no other
        -- phase.
        copy_of(class) = 'h2d'
        AND module_id IS NULL
        AND node_id IS NULL
        AND coalesce(own_phase(marked_phase, is_recompute, node_id, module_id), 'forward')
        = 'forward'
        AND marked_row IS NULL AS is_input
    FROM launch_fact
),

with_phase AS (SELECT * FROM decided_phase('with_input')),

with_module AS (SELECT * FROM decided_module('with_phase')),

linked AS MATERIALIZED (
    SELECT
        trace_id, event_id, piece, device, ts_ns, name, launch_id, launch_delay_ns, link, step,
        op_id,
        NULL::BIGINT AS like_event_id,
        captured_id, is_placed_by_capture, is_placed_by_annotation, annotated_op_name, class,
        has_phase_of_length AND by_phase_rule.rule = 5 AS has_phase_of_length,
        has_annotated_phase
        OR (is_placed_by_annotation AND by_phase_rule.rule = 7) AS has_phase_of_annotation,
        captured_id IS NOT NULL
        AND replay_phase IS NULL
        AND (by_phase_rule.rule <= 5 OR (by_phase_rule.rule = 7 AND is_placed_by_capture))
            AS has_phase_of_capture, by_phase_rule, by_module_rule
    FROM with_module
),

-- Kernel names whose events all ran in one phase, with their row_name if it is always the same.
name_fact AS (
    SELECT
        trace_id, name,
        min(by_phase_rule.phase) AS name_phase,
        if(
            count(by_module_rule.row_name) = count(*)
            AND min(by_module_rule.row_name) = max(by_module_rule.row_name),
            min(by_module_rule.row_name),
            NULL
        ) AS name_row
    FROM linked
    WHERE by_phase_rule.phase IS NOT NULL
    GROUP BY trace_id, name
    HAVING min(by_phase_rule.phase) = max(by_phase_rule.phase)
),

unlinked_fact AS (
    SELECT
        k.trace_id, k.event_id, k.piece, d.device, d.ts_ns, d.name, d.class, k.launch_id,
        k.launch_delay_ns, k.link, k.step,
        NULL::BIGINT AS op_id,
        a.module_id IS NOT NULL AS is_placed_by_annotation,
        a.phase IS NOT NULL AS has_phase_of_annotation,
        a.op_name AS annotated_op_name,
        r.like_event_id,
        coalesce(a.phase, l.by_phase_rule.phase) AS like_phase,
        coalesce(a.module_id, l.by_module_rule.module_id) AS like_module_id,
        if(a.module_id IS NULL, l.by_module_rule.row_name, NULL) AS like_row,
        n.name_phase, n.name_row,
        o.phase AS kernel_phase,
        coalesce(o.is_named, FALSE) AS is_named_kernel
    FROM launch_link AS k
    INNER JOIN device_events AS d USING (trace_id, event_id, piece)
    LEFT JOIN kernel_annotation AS a USING (trace_id, event_id)
    LEFT JOIN repeated_launches AS r USING (trace_id, event_id)
    LEFT JOIN linked AS l ON r.trace_id = l.trace_id AND r.like_event_id = l.event_id
    LEFT JOIN name_fact AS n ON d.trace_id = n.trace_id AND d.name = n.name
    LEFT JOIN kernel_order AS o USING (trace_id, event_id, piece)
    WHERE k.launch_id IS NULL
),

decided_event AS (
    SELECT * FROM linked
    UNION ALL BY NAME
    SELECT
        * EXCLUDE (
            like_phase, like_module_id, like_row, name_phase, name_row, kernel_phase,
            is_named_kernel
        )
    FROM decided_without_launch('unlinked_fact')
)

SELECT
    w.trace_id, w.event_id, w.piece, w.launch_id, w.launch_delay_ns, w.link, w.op_id,
    coalesce(o.name, c.op_name, w.annotated_op_name) AS op_name,
    class_by_op(w.class, coalesce(o.name, c.op_name, w.annotated_op_name)) AS op_class,
    w.by_module_rule.module_id, CASE
        WHEN w.by_module_rule.module_id IS NULL
            THEN coalesce(w.by_module_rule.row_name, '(unattributed)')
    END AS row_name, CASE
        WHEN w.is_placed_by_annotation THEN 'annotation'
        WHEN w.is_placed_by_capture AND w.by_module_rule.rule <= 10 THEN 'capture'
        ELSE w.by_module_rule.reason
    END AS module_reason, w.by_module_rule.rule AS module_rule,
    coalesce(w.by_phase_rule.phase, 'other') AS phase,
    CASE
        WHEN w.has_phase_of_annotation THEN 'annotation'
        WHEN w.has_phase_of_capture THEN 'capture'
        WHEN w.has_phase_of_length THEN 'query length'
        ELSE w.by_phase_rule.reason
    END AS phase_reason,
    w.by_phase_rule.rule AS phase_rule, w.step,
    w.like_event_id, w.captured_id,
    -- Rules 6 and 9 to 26 infer the phase.
    (w.by_phase_rule.phase IS NOT NULL AND (w.by_phase_rule.rule = 6 OR w.by_phase_rule.rule > 8))
    OR (w.like_event_id IS NOT NULL AND NOT coalesce(w.is_placed_by_annotation, FALSE))
    OR coalesce(w.has_phase_of_length, FALSE)
    OR (w.captured_id IS NOT NULL AND NOT coalesce(w.has_phase_of_annotation, FALSE))
        AS is_inferred
FROM decided_event AS w
LEFT JOIN event AS o ON w.trace_id = o.trace_id AND w.op_id = o.event_id
LEFT JOIN replayed_event AS c
    ON w.captured_id IS NOT NULL AND w.trace_id = c.trace_id AND w.event_id = c.event_id
ORDER BY w.trace_id, w.device, w.ts_ns, w.event_id, w.piece
