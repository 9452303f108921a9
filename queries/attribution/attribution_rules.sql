-- Ordered rules that decide the phase and module of each device event.
-- attribution_rules() lists each rule; the CASE branches below return its decision and reason, and the first match
-- wins. own_phase, decided_phase, and decided_module add their decision to a relation of facts: a struct of rule,
-- reason, and result (NULL and reason `none` if undecided). decided_without_launch makes both decisions for events
-- without a recorded launch, from what was decided for others.
--
-- Kind:   function
-- Params:
--   facts  VARCHAR  relation with the columns that the rules refer to
-- Columns:
--   decides   VARCHAR  phase or module (attribution_rules)
--   rule      INTEGER  rule number, in order (attribution_rules)
--   question  VARCHAR  what the rule asks (attribution_rules)
--   reason    VARCHAR  reason (attribution_reasons)
--   meaning   VARCHAR  explanation of the reason (attribution_reasons)

CREATE OR REPLACE MACRO attribution_reasons() AS TABLE (
    SELECT *
    FROM (
        VALUES
        ('annotation', 'the kernel carries it: torch or Triton wrote it there'),
        ('own range', 'a range, a call or an op around its launch has a name that says so'),
        ('module call', 'a module call encloses its launch'),
        ('autograd node', 'an autograd node encloses its launch'),
        ('sequence number', 'a number links its launch to a forward op'),
        ('launch context', 'what it does itself, and what its launch is in and what not'),
        ('phase', 'its row follows from its phase'),
        ('whole trace', 'the trace contains only forward work'),
        ('neighbours', 'what was launched before it and after it tells its phase'),
        ('capture', 'the capture of the graph that its launch replays says so'),
        ('query length', 'its pass embeds so many tokens of each sequence: one, or a prompt'),
        ('repetition', 'it repeats a device event whose launch is in the trace'),
        ('name', 'its name says so, or others of its name ran in one phase only'),
        ('order of kernels', 'it runs between kernels whose names say so'),
        ('none', 'nothing tells')
    ) AS listed (reason, meaning)
);

CREATE OR REPLACE MACRO attribution_rules() AS TABLE (
    SELECT *
    FROM (
        VALUES
        ('phase', 1, 'a copy to the device that feeds the model?'),
        ('phase', 2, 'inside of what is named an optimizer?'),
        ('phase', 3, 'forward work that runs again for the backward pass?'),
        ('phase', 4, 'inside of a node of autograd?'),
        ('phase', 5, 'inside of what is named after a phase, or of a pass over a prompt or token?'),
        ('phase', 6, 'around work of a model outside of grad mode, where ops in it have numbers?'),
        ('phase', 7, 'inside of a module?'),
        ('phase', 8, 'inside of an op with a sequence number, in a forward pass?'),
        ('phase', 9, 'in a trace of kernels alone, named after a phase of training?'),
        ('phase', 10, 'in a trace of kernels alone, between others that are?'),
        ('phase', 11, 'compute, where the trace tells of nothing but forward work?'),
        ('phase', 12, 'before a backward pass, and not behind one?'),
        ('phase', 13, 'between zero_grad and a forward pass?'),
        ('phase', 14, 'behind zero_grad, before something else?'),
        ('phase', 15, 'behind a forward pass, or in grad mode and not on gradients?'),
        ('phase', 16, 'between two backward passes, and not beside them?'),
        ('phase', 17, 'behind a recomputation?'),
        ('phase', 18, 'before the first forward pass?'),
        ('phase', 19, 'between loading of data and a forward pass, with work of a model?'),
        ('phase', 20, 'between two calls that generate, or that evaluate?'),
        ('phase', 21, 'with work of a model, or before the first zero_grad?'),
        ('phase', 22, 'behind a backward pass?'),
        ('phase', 23, 'next to loading of data?'),
        ('phase', 24, 'next to a phase?'),
        ('phase', 25, 'without a launch: does it repeat a device event whose phase is known?'),
        ('phase', 26, 'without a launch: did all of its name run in one phase?'),
        ('module', 1, 'inside of what is named after a row?'),
        ('module', 2, 'inside of a module, and not of a backward pass?'),
        ('module', 3, 'is a module around the forward op of its node?'),
        ('module', 4, 'is a module around it inside of its node?'),
        ('module', 5, 'did a hook name the module of the backward pass around it?'),
        ('module', 6, 'in a trace with modules, inside of none: what is named after a row?'),
        ('module', 7, 'inside of a range of the user, and not of a backward pass?'),
        ('module', 8, 'is a range of the user around the forward op of its node?'),
        ('module', 9, 'is a range of the user around it inside of its node?'),
        ('module', 10, 'inside of what is named after a row, and of no range of the user?'),
        ('module', 11, 'communication?'),
        ('module', 12, 'a copy to the device that feeds the model?'),
        ('module', 13, 'forward or backward, in training, outside of all modules?'),
        ('module', 14, 'a copy to the device, where nothing is trained?'),
        ('module', 15, 'in the optimizer?'),
        ('module', 16, 'without a launch: does it repeat a device event whose place is known?'),
        ('module', 17, 'without a launch: is all of its name in one row?')
    ) AS listed (decides, rule, question)
);

-- Phase determined by the launch context alone.
CREATE OR REPLACE MACRO own_phase(facts) AS TABLE (
    SELECT
        *,
        CASE
            WHEN marked_phase = 'optimizer' THEN {rule: 2, reason: 'own range', phase: 'optimizer'}
            WHEN is_recompute AND node_id IS NULL
                THEN {rule: 3, reason: 'own range', phase: 'recompute'}
            WHEN is_recompute THEN {rule: 3, reason: 'autograd node', phase: 'recompute'}
            WHEN node_id IS NOT NULL THEN {rule: 4, reason: 'autograd node', phase: 'backward'}
            WHEN marked_phase IS NOT NULL THEN {rule: 5, reason: 'own range', phase: marked_phase}
            WHEN module_id IS NOT NULL AND module_source IN ('tk', 'range')
                THEN {rule: 7, reason: 'own range', phase: 'forward'}
            WHEN module_id IS NOT NULL THEN {rule: 7, reason: 'module call', phase: 'forward'}
        END AS own
    FROM query_table(facts)
);

CREATE OR REPLACE MACRO decided_phase(facts) AS TABLE (
    SELECT
        *,
        CASE
            WHEN is_input THEN {rule: 1, reason: 'launch context', phase: 'data'}
            WHEN is_evaluation THEN {rule: 6, reason: 'neighbours', phase: 'evaluation'}
            WHEN own IS NOT NULL THEN own
            -- Ops have sequence numbers wherever grad mode is on. Only that of an op a node leads
            -- back to proves a forward pass.
            WHEN is_proven_forward THEN {rule: 8, reason: 'sequence number', phase: 'forward'}
            WHEN is_named_kernel THEN {rule: 9, reason: 'name', phase: kernel_phase}
            WHEN kernel_phase IS NOT NULL
                THEN {rule: 10, reason: 'order of kernels', phase: kernel_phase}
            WHEN
                launch_id IS NOT NULL
                AND NOT is_ordered_kernel
                AND kind = 'compute'
                AND NOT is_training
                AND NOT has_modules
                AND NOT has_phases
                AND is_unmarked
                THEN {rule: 11, reason: 'whole trace', phase: 'forward'}
            WHEN
                label_after IN ('backward', 'recompute', 'derivative')
                AND coalesce(label_before, 'zero_grad') NOT IN (
                    'backward', 'recompute', 'derivative'
                )
                THEN {rule: 12, reason: 'neighbours', phase: 'forward'}
            WHEN
                label_before = 'zero_grad'
                AND coalesce(label_after, 'forward') IN ('forward', 'data')
                THEN {rule: 13, reason: 'neighbours', phase: 'forward'}
            WHEN label_before = 'zero_grad' THEN {rule: 14, reason: 'none', phase: NULL}
            -- Gradients to be differentiated further belong to the next computation.
            WHEN
                label_before = 'forward'
                OR (label_before = 'derivative' AND label_after = 'forward')
                THEN {rule: 15, reason: 'neighbours', phase: 'forward'}
            -- A model that runs on another thread between two backward passes is not part of them.
            WHEN
                label_before IN ('backward', 'recompute', 'derivative')
                AND label_after IN ('backward', 'recompute', 'derivative')
                AND (is_on_node_thread OR NOT is_model_block)
                THEN {rule: 16, reason: 'neighbours', phase: 'backward'}
            WHEN label_before = 'recompute' THEN {rule: 17, reason: 'neighbours', phase: 'backward'}
            WHEN label_before IS NULL AND label_after = 'forward'
                THEN {rule: 18, reason: 'neighbours', phase: 'forward'}
            WHEN label_before = 'data' AND label_after = 'forward' AND is_model_block
                THEN {rule: 19, reason: 'neighbours', phase: 'forward'}
            -- Tokens are sampled between generating calls, and losses computed between evaluating
            -- ones.
            WHEN label_before = label_after AND label_before IN ('generation', 'evaluation')
                THEN {rule: 20, reason: 'neighbours', phase: label_before}
            -- Optimizers run no model work, but work on gradients between a backward pass and the
            -- optimizer may contain GEMMs, and anything may precede the first zero_grad.
            WHEN
                (
                    is_model_block
                    AND (label_before, label_after) IS DISTINCT FROM ('backward', 'optimizer')
                )
                OR (label_before IS NULL AND label_after = 'zero_grad')
                THEN {rule: 21, reason: 'none', phase: NULL}
            -- Sends at this point carry gradients to the previous stage.
            WHEN label_before IN ('backward', 'derivative')
                THEN {
                    rule: 22,
                    reason: 'neighbours',
                    phase: if(collective_of(class) = 'p2p', 'backward', 'optimizer')
                }
            WHEN 'data' IN (label_before, label_after)
                THEN {rule: 23, reason: 'neighbours', phase: 'data'}
            WHEN coalesce(label_before, label_after) IS NOT NULL
                THEN {rule: 24, reason: 'neighbours', phase: coalesce(label_before, label_after)}
            ELSE {rule: NULL, reason: 'none', phase: NULL}
        END AS by_phase_rule
    FROM query_table(facts)
);

-- Requires decided_phase.
CREATE OR REPLACE MACRO decided_module(facts) AS TABLE (
    WITH judged AS (
        SELECT
            *,
            {
                is_backward: node_id IS NOT NULL AND NOT is_recompute,
                is_loss: launch_id IS NOT NULL
                AND is_training
                AND has_modules
                AND (node_id IS NOT NULL OR coalesce(by_phase_rule.phase = 'forward', FALSE)),
                call_reason: if(module_source IN ('tk', 'range'), 'own range', 'module call'),
                -- Communication of a hook is not gradient accumulation.
                own_row: if(
                    kind = 'comm' AND marked_row = '(gradient accumulation)',
                    '(communication)',
                    marked_row
                )
            } AS found
        FROM query_table(facts)
    )

    SELECT
        * EXCLUDE (found),
        CASE
            WHEN NOT is_weak_row
                THEN {rule: 1, reason: 'own range', module_id: NULL, row_name: found.own_row}
            WHEN module_id IS NOT NULL AND NOT found.is_backward
                THEN {rule: 2, reason: found.call_reason, module_id: module_id, row_name: NULL}
            WHEN forward_module_id IS NOT NULL
                THEN {
                    rule: 3, reason: 'sequence number', module_id: forward_module_id, row_name: NULL
                }
            WHEN module_id IS NOT NULL
                THEN {rule: 4, reason: found.call_reason, module_id: module_id, row_name: NULL}
            WHEN hook_module_id IS NOT NULL AND found.is_backward
                THEN {rule: 5, reason: 'own range', module_id: hook_module_id, row_name: NULL}
            WHEN is_weak_row AND has_modules
                THEN {rule: 6, reason: 'own range', module_id: NULL, row_name: found.own_row}
            WHEN range_id IS NOT NULL AND NOT found.is_backward AND NOT found.is_loss
                THEN {rule: 7, reason: 'own range', module_id: range_id, row_name: NULL}
            WHEN forward_range_id IS NOT NULL AND NOT found.is_loss
                THEN {
                    rule: 8, reason: 'sequence number', module_id: forward_range_id, row_name: NULL
                }
            WHEN range_id IS NOT NULL AND NOT found.is_loss
                THEN {rule: 9, reason: 'own range', module_id: range_id, row_name: NULL}
            WHEN is_weak_row
                THEN {rule: 10, reason: 'own range', module_id: NULL, row_name: found.own_row}
            WHEN launch_id IS NOT NULL AND kind = 'comm'
                THEN {
                    rule: 11, reason: 'launch context', module_id: NULL, row_name: '(communication)'
                }
            WHEN is_input
                THEN {
                    rule: 12, reason: 'launch context', module_id: NULL, row_name: '(data loading)'
                }
            WHEN found.is_loss THEN {rule: 13, reason: 'phase', module_id: NULL, row_name: '(loss)'}
            WHEN launch_id IS NOT NULL AND copy_of(class) = 'h2d' AND NOT is_training
                THEN {
                    rule: 14, reason: 'launch context', module_id: NULL, row_name: '(data loading)'
                }
            WHEN launch_id IS NOT NULL AND by_phase_rule.phase = 'optimizer'
                THEN {rule: 15, reason: 'phase', module_id: NULL, row_name: '(optimizer)'}
            ELSE {rule: NULL, reason: 'none', module_id: NULL, row_name: NULL}
        END AS by_module_rule
    FROM judged
);

CREATE OR REPLACE MACRO decided_without_launch(facts) AS TABLE (
    SELECT
        *,
        CASE
            WHEN like_phase IS NOT NULL THEN {rule: 25, reason: 'repetition', phase: like_phase}
            WHEN is_named_kernel THEN {rule: 9, reason: 'name', phase: kernel_phase}
            WHEN kernel_phase IS NOT NULL
                THEN {rule: 10, reason: 'order of kernels', phase: kernel_phase}
            WHEN like_event_id IS NULL AND name_phase IS NOT NULL
                THEN {rule: 26, reason: 'name', phase: name_phase}
            ELSE {rule: NULL, reason: 'none', phase: NULL}
        END AS by_phase_rule, CASE
            WHEN coalesce(like_module_id::VARCHAR, like_row) IS NOT NULL
                THEN {
                    rule: 16, reason: 'repetition', module_id: like_module_id, row_name: like_row
                }
            WHEN like_event_id IS NULL AND name_row IS NOT NULL
                THEN {rule: 17, reason: 'name', module_id: NULL, row_name: name_row}
            ELSE {rule: NULL, reason: 'none', module_id: NULL, row_name: NULL}
        END AS by_module_rule
    FROM query_table(facts)
);
