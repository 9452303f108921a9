-- Ordered rules that decide the phase and module of each device event.
-- attribution_rules() lists the rules, and the CASE branches below implement them; the first match wins. decided_phase
-- and decided_module add a column with the decision to a relation of facts: a struct of rule, reason, and result
-- (reason `none` without a match). decided_without_launch decides for events without a recorded launch, from the
-- decisions for other events.
--
-- Kind:   function
-- Params:
--   facts  VARCHAR  relation with the columns that the rules refer to
-- Columns:
--   decides   VARCHAR  phase or module (attribution_rules)
--   rule      INTEGER  rule number, in order (attribution_rules)
--   question  VARCHAR  condition of the rule, as a question (attribution_rules)
--   reason    VARCHAR  reason (attribution_reasons)
--   meaning   VARCHAR  explanation of the reason (attribution_reasons)

CREATE OR REPLACE MACRO attribution_reasons() AS TABLE (
    SELECT *
    FROM (
        VALUES
        ('annotation', 'recorded on the kernel by torch or Triton'),
        ('own range', 'name of a range, call, or op around the launch'),
        ('module call', 'module call around the launch'),
        ('autograd node', 'autograd node around the launch'),
        ('sequence number', 'sequence number that links the launch to a forward op'),
        ('launch context', 'kind of the kernel, and the spans around its launch'),
        ('phase', 'the phase determines the named row, such as (optimizer)'),
        ('whole trace', 'the trace contains only forward work'),
        ('adjacent launches', 'launches before and after it'),
        ('capture', 'capture of the graph that the launch replays'),
        (
            'query length',
            'number of tokens per sequence in the pass: one (decode), or a whole prompt (prefill)'
        ),
        (
            'repeated launches',
            'event with a recorded launch that this event repeats'
        ),
        ('name', 'kernel name, or the only phase of kernels with that name'),
        ('order of kernels', 'position between kernels whose names show the phase'),
        ('none', 'unknown')
    ) AS listed (reason, meaning)
);

CREATE OR REPLACE MACRO attribution_rules() AS TABLE (
    SELECT *
    FROM (
        VALUES
        ('phase', 1, 'is it a host-to-device copy of model input?'),
        ('phase', 2, 'is it inside an optimizer range or call?'),
        ('phase', 3, 'is it forward work that is recomputed for the backward pass?'),
        ('phase', 4, 'is it inside an autograd node?'),
        ('phase', 5, 'is it inside a range named after a phase, or in prefill or decode?'),
        (
            'phase', 6,
            'if ops have sequence numbers: is it near model work that ran without gradients?'
        ),
        ('phase', 7, 'is it inside a module?'),
        ('phase', 8, 'is it inside an op with a sequence number, in a forward pass?'),
        ('phase', 9, 'in a trace of kernels alone: does its name show a training phase?'),
        ('phase', 10, 'in a trace of kernels alone: is it between kernels whose names show one?'),
        ('phase', 11, 'is it compute in a trace with only forward work?'),
        ('phase', 12, 'is it before a backward pass, and not after one?'),
        ('phase', 13, 'is it between zero_grad and a forward pass?'),
        ('phase', 14, 'is it after zero_grad and before other work?'),
        (
            'phase', 15,
            'does it follow a forward pass, or a differentiated backward pass before one?'
        ),
        ('phase', 16, 'is it between two backward passes?'),
        ('phase', 17, 'is it after a recomputation?'),
        ('phase', 18, 'is it before the first forward pass?'),
        ('phase', 19, 'is it between data loading and a forward pass, near model work?'),
        ('phase', 20, 'is it between two calls for generation or evaluation?'),
        ('phase', 21, 'is it near model work, or before the first zero_grad?'),
        ('phase', 22, 'is it after a backward pass?'),
        ('phase', 23, 'is it next to data loading?'),
        ('phase', 24, 'is it next to a known phase?'),
        ('phase', 25, 'without a launch: does it repeat a device event with a known phase?'),
        ('phase', 26, 'without a launch: did all kernels with its name run in one phase?'),
        (
            'module', 1,
            'is it inside a range whose name maps to a named row, such as (optimizer)?'
        ),
        ('module', 2, 'is it inside a module, and not in a backward pass?'),
        ('module', 3, 'is a module around the forward op of its autograd node?'),
        ('module', 4, 'is a module around it inside its autograd node?'),
        ('module', 5, 'did a hook name the module of the surrounding backward pass?'),
        (
            'module', 6,
            'outside all modules of the trace: does a surrounding name indicate a named row?'
        ),
        ('module', 7, 'is it inside a user range, and not in a backward pass?'),
        ('module', 8, 'is a user range around the forward op of its autograd node?'),
        ('module', 9, 'is a user range around it inside its autograd node?'),
        ('module', 10, 'in no user range: does a surrounding name indicate a named row?'),
        ('module', 11, 'is it communication?'),
        ('module', 12, 'is it a host-to-device copy of model input?'),
        ('module', 13, 'is it forward or backward work in training, outside all modules?'),
        ('module', 14, 'is it a host-to-device copy, without training?'),
        ('module', 15, 'is it in the optimizer, or in gradient clipping before it?'),
        ('module', 16, 'without a launch: does it repeat an event with a known module or row?'),
        ('module', 17, 'without a launch: do all kernels with its name belong to one row?')
    ) AS listed (decides, rule, question)
);

-- Phase determined by the launch context, without adjacent launches: rules 2 to 5, and 7.
CREATE OR REPLACE MACRO own_phase(marked_phase, is_recompute, node_id, module_id) AS CASE
    WHEN marked_phase = 'optimizer' THEN 'optimizer'
    WHEN is_recompute THEN 'recompute'
    WHEN node_id IS NOT NULL THEN 'backward'
    ELSE coalesce(marked_phase, if(module_id IS NULL, NULL, 'forward'))
END;

CREATE OR REPLACE MACRO decided_phase(facts) AS TABLE (
    SELECT
        *,
        CASE
            WHEN is_input THEN {rule: 1, reason: 'launch context', phase: 'data'}
            WHEN is_evaluation THEN {rule: 6, reason: 'adjacent launches', phase: 'evaluation'}
            WHEN marked_phase = 'optimizer' THEN {rule: 2, reason: 'own range', phase: 'optimizer'}
            WHEN is_recompute AND node_id IS NULL
                THEN {rule: 3, reason: 'own range', phase: 'recompute'}
            WHEN is_recompute THEN {rule: 3, reason: 'autograd node', phase: 'recompute'}
            WHEN node_id IS NOT NULL THEN {rule: 4, reason: 'autograd node', phase: 'backward'}
            WHEN marked_phase IS NOT NULL THEN {rule: 5, reason: 'own range', phase: marked_phase}
            WHEN module_id IS NOT NULL AND module_source IN ('tk', 'range')
                THEN {rule: 7, reason: 'own range', phase: 'forward'}
            WHEN module_id IS NOT NULL THEN {rule: 7, reason: 'module call', phase: 'forward'}
            -- With grad mode on, every op has a sequence number. The number proves a forward pass
            -- only if an op of that pass is linked to an autograd node.
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
                THEN {rule: 12, reason: 'adjacent launches', phase: 'forward'}
            WHEN
                label_before = 'zero_grad'
                AND coalesce(label_after, 'forward') IN ('forward', 'data')
                THEN {rule: 13, reason: 'adjacent launches', phase: 'forward'}
            WHEN label_before = 'zero_grad' THEN {rule: 14, reason: 'none', phase: NULL}
            -- After a backward pass that is itself differentiated (double backward), work belongs
            -- to the forward pass that follows.
            WHEN
                label_before = 'forward'
                OR (label_before = 'derivative' AND label_after = 'forward')
                THEN {rule: 15, reason: 'adjacent launches', phase: 'forward'}
            -- A model that runs on another thread between two backward passes belongs to neither
            -- pass.
            WHEN
                label_before IN ('backward', 'recompute', 'derivative')
                AND label_after IN ('backward', 'recompute', 'derivative')
                AND (is_on_node_thread OR NOT is_model_block)
                THEN {rule: 16, reason: 'adjacent launches', phase: 'backward'}
            WHEN label_before = 'recompute'
                THEN {rule: 17, reason: 'adjacent launches', phase: 'backward'}
            WHEN label_before IS NULL AND label_after = 'forward'
                THEN {rule: 18, reason: 'adjacent launches', phase: 'forward'}
            WHEN label_before = 'data' AND label_after = 'forward' AND is_model_block
                THEN {rule: 19, reason: 'adjacent launches', phase: 'forward'}
            -- Sampling runs between generation calls, and the computation of losses between
            -- evaluation calls.
            WHEN label_before = label_after AND label_before IN ('generation', 'evaluation')
                THEN {rule: 20, reason: 'adjacent launches', phase: label_before}
            -- Optimizers run no model. But work on gradients between a backward pass and the
            -- optimizer may contain GEMMs, and any work may precede the first zero_grad.
            WHEN
                (
                    is_model_block
                    AND (label_before, label_after) IS DISTINCT FROM ('backward', 'optimizer')
                )
                OR (label_before IS NULL AND label_after = 'zero_grad')
                THEN {rule: 21, reason: 'none', phase: NULL}
            -- Sends at this point carry gradients to the previous stage. Hooks on the thread of the
            -- autograd engine end the backward pass.
            WHEN label_before IN ('backward', 'derivative')
                THEN {
                    rule: 22,
                    reason: 'adjacent launches',
                    phase: if(
                        collective_of(class) = 'p2p' OR is_on_engine_thread, 'backward', 'optimizer'
                    )
                }
            WHEN 'data' IN (label_before, label_after)
                THEN {rule: 23, reason: 'adjacent launches', phase: 'data'}
            WHEN coalesce(label_before, label_after) IS NOT NULL
                THEN {
                    rule: 24, reason: 'adjacent launches',
                    phase: coalesce(label_before, label_after)
                }
            ELSE {rule: NULL, reason: 'none', phase: NULL}
        END AS by_phase_rule
    FROM query_table(facts)
);

-- Call decided_phase first.
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
                -- Communication in a gradient hook is not gradient accumulation.
                own_row: if(
                    kind = 'comm' AND marked_row = '(gradient accumulation)',
                    '(communication)',
                    marked_row
                )
            } AS derived
        FROM query_table(facts)
    )

    SELECT
        * EXCLUDE (derived),
        CASE
            WHEN NOT is_weak_row
                THEN {rule: 1, reason: 'own range', module_id: NULL, row_name: derived.own_row}
            WHEN module_id IS NOT NULL AND NOT derived.is_backward
                THEN {rule: 2, reason: derived.call_reason, module_id: module_id, row_name: NULL}
            WHEN forward_module_id IS NOT NULL
                THEN {
                    rule: 3, reason: 'sequence number', module_id: forward_module_id, row_name: NULL
                }
            WHEN module_id IS NOT NULL
                THEN {rule: 4, reason: derived.call_reason, module_id: module_id, row_name: NULL}
            WHEN hook_module_id IS NOT NULL AND derived.is_backward
                THEN {rule: 5, reason: 'own range', module_id: hook_module_id, row_name: NULL}
            WHEN is_weak_row AND has_modules
                THEN {rule: 6, reason: 'own range', module_id: NULL, row_name: derived.own_row}
            WHEN range_id IS NOT NULL AND NOT derived.is_backward AND NOT derived.is_loss
                THEN {rule: 7, reason: 'own range', module_id: range_id, row_name: NULL}
            WHEN forward_range_id IS NOT NULL AND NOT derived.is_loss
                THEN {
                    rule: 8, reason: 'sequence number', module_id: forward_range_id, row_name: NULL
                }
            WHEN range_id IS NOT NULL AND NOT derived.is_loss
                THEN {rule: 9, reason: 'own range', module_id: range_id, row_name: NULL}
            WHEN is_weak_row
                THEN {rule: 10, reason: 'own range', module_id: NULL, row_name: derived.own_row}
            WHEN launch_id IS NOT NULL AND kind = 'comm'
                THEN {
                    rule: 11, reason: 'launch context', module_id: NULL, row_name: '(communication)'
                }
            WHEN is_input
                THEN {
                    rule: 12, reason: 'launch context', module_id: NULL, row_name: '(data loading)'
                }
            WHEN derived.is_loss
                THEN {rule: 13, reason: 'phase', module_id: NULL, row_name: '(loss)'}
            WHEN launch_id IS NOT NULL AND copy_of(class) = 'h2d' AND NOT is_training
                THEN {
                    rule: 14, reason: 'launch context', module_id: NULL, row_name: '(data loading)'
                }
            WHEN launch_id IS NOT NULL AND by_phase_rule.phase = 'optimizer'
                THEN {
                    rule: 15, reason: if(is_clipping, 'adjacent launches', 'phase'),
                    module_id: NULL,
                    row_name: if(is_clipping, '(gradient clipping)', '(optimizer)')
                }
            ELSE {rule: NULL, reason: 'none', module_id: NULL, row_name: NULL}
        END AS by_module_rule
    FROM judged
);

CREATE OR REPLACE MACRO decided_without_launch(facts) AS TABLE (
    SELECT
        *,
        CASE
            WHEN like_phase IS NOT NULL
                THEN {rule: 25, reason: 'repeated launches', phase: like_phase}
            WHEN is_named_kernel THEN {rule: 9, reason: 'name', phase: kernel_phase}
            WHEN kernel_phase IS NOT NULL
                THEN {rule: 10, reason: 'order of kernels', phase: kernel_phase}
            WHEN like_event_id IS NULL AND name_phase IS NOT NULL
                THEN {rule: 26, reason: 'name', phase: name_phase}
            ELSE {rule: NULL, reason: 'none', phase: NULL}
        END AS by_phase_rule, CASE
            WHEN coalesce(like_module_id::VARCHAR, like_row) IS NOT NULL
                THEN {
                    rule: 16, reason: 'repeated launches', module_id: like_module_id,
                    row_name: like_row
                }
            WHEN like_event_id IS NULL AND name_row IS NOT NULL
                THEN {rule: 17, reason: 'name', module_id: NULL, row_name: name_row}
            ELSE {rule: NULL, reason: 'none', module_id: NULL, row_name: NULL}
        END AS by_module_rule
    FROM query_table(facts)
);
