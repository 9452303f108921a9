-- Attribution rules tried for a device event, and the deciding one.
-- The first rows of an event list its facts. The rules follow in order, up to the rule that decided. `event_id` or
-- `kernel` selects events; the longest matching ones are shown.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   event_id  BIGINT = NULL   device event, as in table event
--   kernel    VARCHAR = NULL  substring of the kernel name, case-insensitive
--   limit     BIGINT = 3      number of events per trace; 0 for all
-- Needs: event_id | kernel
-- Columns:
--   rank        INTEGER
--   event_id    BIGINT   device event
--   decides     VARCHAR  phase or module, or facts
--   rule        INTEGER  rule number; NULL for facts, and if no rule decided
--   question    VARCHAR  condition of the rule, as a question
--   evidence    VARCHAR  facts that the rule compared
--   answer      VARCHAR  decision: phase, module, or row_name; NULL unless this rule decided
--   reason      VARCHAR  how the answer is known, as in analysis reasons
--   is_decided  BOOLEAN  this rule decided; NULL for facts
-- Keep:     event_id, decides, rule, evidence, answer, reason
-- Invariant: coalesce(is_decided, FALSE) = (answer IS NOT NULL)
-- Invariant: (answer IS NULL) = (reason IS NULL)

WITH chosen AS (
    SELECT *
    FROM attributed_events
    WHERE
        piece = 0
        AND ($event_id IS NULL OR event_id = $event_id)
        AND ($kernel IS NULL OR contains(lower(name), lower($kernel)))
    QUALIFY
        $limit = 0
        OR row_number() OVER (PARTITION BY trace_id ORDER BY dur_ns DESC, event_id) <= $limit
),

evidence AS (
    SELECT
        c.*,
        a.captured_id, a.phase_rule, a.module_rule, l.name AS launch_name, s.is_recompute,
        s.marked_row,
        s.is_weak_row, s.is_in_grad_mode, s.marked_phase,
        CASE
            WHEN pm.marker_id IS NULL THEN 'no range, call, or op around the launch shows a phase'
            ELSE format('{} ({}): {}', pm.name, pm.category, s.marked_phase)
        END AS phase_mark, CASE
            WHEN rm.marker_id IS NULL THEN 'no range, call, or op around the launch shows a row'
            ELSE format(
                '{} ({}): {}{}', rm.name, rm.category, s.marked_row,
                if(s.is_weak_row, ', for work in no module', '')
            )
        END AS row_mark,
        coalesce(format('{}, event {}', node.name, s.node_id), 'no autograd node') AS node,
        coalesce(format('{}, event {}', forward_op.name, s.forward_op_id), 'no forward op')
            AS forward_op,
        coalesce(format('{} ({})', own_module.path, own_module.source), 'no module') AS own_module,
        coalesce(forward_module.path, 'in no module') AS forward_module,
        coalesce(hook_module.path, 'no such hook') AS hook_module,
        coalesce(own_range.path, 'no user range') AS own_range,
        coalesce(forward_range.path, 'in no user range') AS forward_range,
        coalesce(placed.path, c.row_name) AS place,
        format(
            'the trace has {} autograd nodes, {} modules, {} named phases',
            if(t.is_training, 'some', 'no'),
            if(t.has_modules, 'some', 'no'),
            if(t.has_phases, 'some', 'no')
        ) AS traits,
        CASE
            WHEN n.launch_id IS NULL AND NOT t.is_training THEN 'not applicable: no training'
            WHEN n.launch_id IS NULL THEN 'not applicable: no launch'
            ELSE format(
                'before: {}; after: {}; {} between{}',
                coalesce(
                    format('{} ({:,} ns)', n.label_before, l.ts_ns - n.before_ts_ns), 'nothing'
                ),
                coalesce(format('{} ({:,} ns)', n.label_after, n.after_ts_ns - l.ts_ns), 'nothing'),
                if(n.is_model_block, 'model work', 'no model work'),
                if(n.is_on_node_thread, '; on an autograd thread', '')
                || if(n.is_evaluation, '; a model runs outside grad mode', '')
            )
        END AS around, CASE
            WHEN c.launch_id IS NOT NULL THEN 'not applicable: its launch is known'
            WHEN c.like_event_id IS NULL THEN 'repeats no event'
            ELSE format('repeats event {}', c.like_event_id)
        END AS repeated, CASE
            WHEN c.launch_id IS NOT NULL THEN 'not applicable: its launch is known'
            WHEN c.like_event_id IS NOT NULL THEN 'not applicable: it repeats an event'
            ELSE 'other kernels with its name'
        END AS by_name
    FROM chosen AS c
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    INNER JOIN trace_traits AS t USING (trace_id)
    LEFT JOIN launch AS l ON c.trace_id = l.trace_id AND c.launch_id = l.launch_id
    LEFT JOIN launch_context AS s
        ON c.trace_id = s.trace_id AND coalesce(a.captured_id, c.launch_id) = s.event_id
    LEFT JOIN adjacent_launches AS n ON c.trace_id = n.trace_id AND c.launch_id = n.launch_id
    LEFT JOIN range_marker AS pm ON s.phase_marker_id = pm.marker_id
    LEFT JOIN range_marker AS rm ON s.row_marker_id = rm.marker_id
    LEFT JOIN event AS node ON s.trace_id = node.trace_id AND s.node_id = node.event_id
    LEFT JOIN event AS forward_op
        ON s.trace_id = forward_op.trace_id AND s.forward_op_id = forward_op.event_id
    LEFT JOIN module AS own_module
        ON s.trace_id = own_module.trace_id AND s.module_id = own_module.module_id
    LEFT JOIN module AS forward_module
        ON s.trace_id = forward_module.trace_id AND s.forward_module_id = forward_module.module_id
    LEFT JOIN module AS hook_module
        ON s.trace_id = hook_module.trace_id AND s.hook_module_id = hook_module.module_id
    LEFT JOIN module AS own_range
        ON s.trace_id = own_range.trace_id AND s.range_id = own_range.module_id
    LEFT JOIN module AS forward_range
        ON s.trace_id = forward_range.trace_id AND s.forward_range_id = forward_range.module_id
    LEFT JOIN module AS placed
        ON c.trace_id = placed.trace_id AND c.module_id = placed.module_id
),

answered AS (
    SELECT
        *,
        [
            class || ', ' || own_module || ', ' || node,
            phase_mark,
            if(is_recompute, 'recomputed; ' || node, 'not recomputed'),
            node, phase_mark, around, own_module,
            if(is_in_grad_mode, 'inside such an op; ', 'no such op; ') || traits,
            class || ', ' || name || '; ' || traits,
            class || ', ' || name || '; ' || traits,
            kind || '; ' || traits,
            around, around, around, around, around, around,
            around, around, around, around, around, around,
            repeated, by_name
        ] AS phase_evidence,
        [
            row_mark,
            own_module || '; ' || node,
            forward_op || ', ' || forward_module,
            own_module, hook_module,
            row_mark || '; ' || traits,
            own_range || '; ' || node,
            forward_op || ', ' || forward_range,
            own_range, row_mark, kind, class,
            phase || '; ' || node || '; ' || traits,
            class || '; ' || traits,
            phase, repeated, by_name
        ] AS module_evidence
    FROM evidence
),

fact_row AS (
    SELECT
        trace_id, event_id,
        unnest([
            {
                rule: 1,
                question: 'device event',
                evidence: format(
                    '{} on device {}{}, {:,} ns', name, device,
                    coalesce(format(', stream {}', stream), ''), dur_ns
                )
            },
            {
                rule: 2,
                question: 'launch',
                evidence: CASE
                    WHEN link = 'cpu' THEN 'none: CPU op'
                    WHEN launch_id IS NOT NULL
                        THEN format(
                            '{}, event {}, {:,} ns before{}', launch_name, launch_id,
                            launch_delay_ns,
                            coalesce(format('; captured as event {}', captured_id), '')
                        )
                    WHEN link = 'before_window' THEN 'before the trace began'
                    ELSE 'not in the trace'
                END
            },
            {
                rule: 3,
                question: 'enclosing op',
                evidence: coalesce(format('{}, event {}', op_name, op_id), 'none')
            },
            {
                rule: 4,
                question: 'step',
                evidence: coalesce(step::VARCHAR, 'none')
            }
        ], recursive := TRUE)
    FROM answered
),

rule_row AS (
    SELECT
        e.trace_id, e.event_id, r.decides, r.rule, r.question,
        if(r.decides = 'phase', e.phase_evidence[r.rule], e.module_evidence[r.rule]) AS evidence,
        coalesce(if(r.decides = 'phase', e.phase_rule, e.module_rule) = r.rule, FALSE)
            AS is_decided,
        if(r.decides = 'phase', e.phase, e.place) AS decision,
        if(r.decides = 'phase', e.phase_reason, e.module_reason) AS decision_reason
    FROM answered AS e
    INNER JOIN attribution_rules() AS r
        ON r.rule <= coalesce(if(r.decides = 'phase', e.phase_rule, e.module_rule), r.rule)
),

last_row AS (
    SELECT
        trace_id, event_id, decides, NULL AS rule,
        'any other evidence?' AS question,
        'no rule decided' AS evidence,
        TRUE AS is_decided,
        any_value(decision) AS decision,
        any_value(decision_reason) AS decision_reason
    FROM rule_row
    GROUP BY trace_id, event_id, decides
    HAVING NOT bool_or(is_decided)
),

tried_row AS (
    SELECT * FROM rule_row
    UNION ALL
    SELECT * FROM last_row
),

-- Events that are not device work.
other_event AS (
    SELECT
        t.trace_id, e.name, e.category,
        (
            SELECT string_agg(w.event_id::VARCHAR, ', ' ORDER BY w.event_id)
            FROM attributed_events AS w
            WHERE w.trace_id = t.trace_id AND $event_id IN (w.launch_id, w.op_id) AND w.piece = 0
        ) AS launched
    FROM trace AS t
    LEFT JOIN event AS e ON t.trace_id = e.trace_id AND e.event_id = $event_id
    WHERE $event_id IS NOT NULL AND t.trace_id NOT IN (SELECT trace_id FROM chosen)
),

shown AS (
    SELECT
        trace_id, event_id,
        1 AS part,
        'facts' AS decides,
        rule AS position,
        NULL::INTEGER AS rule,
        question, evidence,
        NULL::BOOLEAN AS is_decided,
        NULL::VARCHAR AS decision,
        NULL::VARCHAR AS decision_reason
    FROM fact_row
    UNION ALL
    SELECT
        trace_id, event_id,
        if(decides = 'phase', 2, 3) AS part,
        decides, rule AS position, rule, question, evidence, is_decided, decision, decision_reason
    FROM tried_row
    UNION ALL
    SELECT
        trace_id, $event_id AS event_id,
        1 AS part,
        'facts' AS decides,
        1 AS position,
        NULL AS rule,
        'device event' AS question,
        CASE
            WHEN name IS NULL THEN 'the trace has no event with this id'
            WHEN launched IS NULL THEN format('none: {} ({})', name, category)
            ELSE format('none: {} ({}); it launched events {}', name, category, launched)
        END AS evidence, NULL AS is_decided, NULL AS decision, NULL AS decision_reason
    FROM other_event
)

SELECT
    t.rank, s.event_id, s.decides, s.rule, s.question, s.evidence,
    if(s.is_decided, s.decision, NULL) AS answer,
    if(s.is_decided, s.decision_reason, NULL) AS reason,
    s.is_decided
FROM shown AS s
INNER JOIN trace AS t USING (trace_id)
ORDER BY t.rank NULLS LAST, t.trace_id, s.event_id, s.part, s.position NULLS LAST
