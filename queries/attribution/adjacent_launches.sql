-- Nearest classified launches before and after each launch of unknown phase, in training traces.
-- Launches of unknown phase between the same two classified launches form a block. A block between forward and backward
-- is the loss, a block between zero_grad and backward is a forward pass, and so on. The label `derivative` marks a
-- backward pass that is itself differentiated. An op with a sequence number is forward, except between a backward pass
-- and the next forward pass. There, ops on gradients in grad mode also have sequence numbers.
--
-- Kind:     table
-- Input:    trace_traits WHERE is_training
-- Columns:
--   trace_id           INTEGER -> trace
--   launch_id          BIGINT -> event.event_id  launch
--   label_before       VARCHAR                   phase (or zero_grad, derivative) of the last classified launch before; NULL if none
--   before_ts_ns       BIGINT                    start of that launch, ns
--   label_after        VARCHAR                   phase (or zero_grad, derivative) of the next classified launch; NULL if none
--   after_ts_ns        BIGINT                    start of that launch, ns
--   is_proven_forward  BOOLEAN                   the launch is in an op with a sequence number, and the last label before it is forward
--   is_on_node_thread  BOOLEAN                   the thread of the launch runs autograd nodes
--   is_on_engine_thread  BOOLEAN                 that thread runs only backward passes
--   is_model_block     BOOLEAN                   the block contains work of a model, such as GEMMs or attention
--   is_clipping        BOOLEAN                   work after the first norm between a backward pass and the optimizer, if an element-wise multiplication follows
--   is_evaluation      BOOLEAN                   a model runs without gradients in the block, either in a complete outermost module call, or with no forward pass before or after the block
-- Invariant: (label_before IS NULL) = (before_ts_ns IS NULL) AND (label_after IS NULL) = (after_ts_ns IS NULL)

WITH kernel_name AS MATERIALIZED (
    SELECT
        name,
        regexp_matches(
            name,
            '^aten::(_foreach_|linalg_vector_)?norm\b|\bL[p2]NormFunctor|\bNorm(One|Two)?Ops\b'
        ) AS is_norm,
        regexp_matches(name, '^aten::(_foreach_)?mul_?\b|\bMulFunctor\b|\bmultiplies\b')
            AS is_multiplication
    FROM (SELECT DISTINCT name FROM device_events) AS kernel
),

launched AS (
    SELECT
        k.trace_id, k.launch_id, k.launch_ts_ns,
        bool_or(is_model_work(d.class)) AS is_model,
        bool_or(n.is_norm) AS is_norm,
        bool_or(n.is_multiplication) AS is_multiplication
    FROM launch_link AS k
    INNER JOIN device_events AS d USING (trace_id, event_id, piece)
    INNER JOIN kernel_name AS n USING (name)
    WHERE k.launch_id IS NOT NULL
    GROUP BY ALL
),

launch_fact AS (
    SELECT
        l.trace_id, l.launch_id, l.launch_ts_ns, l.is_model, l.is_norm, l.is_multiplication,
        s.marked_phase, s.marked_row,
        s.is_recompute, s.is_derivative, s.node_id, s.module_id, s.module_source, s.is_in_grad_mode,
        -- In a trace whose ops have sequence numbers in grad mode, an op without one ran outside
        -- grad mode.
        s.op_id IS NOT NULL
        AND NOT s.is_in_grad_mode
        AND bool_or(s.is_in_grad_mode AND s.node_id IS NULL)
            OVER (PARTITION BY l.trace_id) AS is_without_gradients
    FROM launched AS l
    INNER JOIN trace_traits AS t USING (trace_id)
    LEFT JOIN launch_context AS s ON l.trace_id = s.trace_id AND l.launch_id = s.event_id
    WHERE t.is_training
),

-- A launch without gradients inside a module call is evaluation if the complete outermost call has
-- no launch with gradients, and may otherwise be forward.
launch_phase AS MATERIALIZED (
    SELECT
        *,
        own_phase(marked_phase, is_recompute, node_id, module_id) AS phase,
        coalesce(phase = 'forward' AND marked_phase IS NULL AND is_without_gradients, FALSE)
            AS is_module_call
    FROM launch_fact
),

node_thread AS (
    SELECT
        l.trace_id, l.pid, l.tid,
        -- On a CPU, the thread that runs the forward pass may also run the nodes.
        arg_min(s.node_id IS NOT NULL, (l.ts_ns, l.launch_id))
        AND bool_and(
            s.node_id IS NOT NULL
            OR (
                coalesce(s.marked_phase IN ('backward', 'recompute'), TRUE)
                AND s.module_id IS NULL
                AND NOT coalesce(s.is_in_grad_mode, FALSE)
            )
        ) AS is_engine
    FROM launch_context AS s
    INNER JOIN launch AS l ON s.trace_id = l.trace_id AND s.event_id = l.launch_id
    GROUP BY l.trace_id, l.pid, l.tid
    HAVING bool_or(s.node_id IS NOT NULL)
),

-- Outermost module calls, and whether they contain launches in grad mode. Rotary embeddings and
-- masks without gradients belong to a forward pass. A call without any launch in grad mode is not
-- part of one.
module_call AS (
    SELECT e.trace_id, e.pid, e.tid, e.event_id, e.ts_ns, e.ts_ns + e.dur_ns AS end_ns
    FROM event AS e
    INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
    WHERE m.means = 'module' AND EXISTS (FROM launch_phase WHERE is_module_call)
),

outer_call AS MATERIALIZED (
    SELECT trace_id, pid, tid, event_id AS call_id, ts_ns, end_ns
    FROM module_call
    QUALIFY
        coalesce(
            gap_before_ns((trace_id, pid, tid), ts_ns, end_ns, (-end_ns, event_id)) >= 0, TRUE
        )
),

called_whole AS (
    SELECT l.trace_id, l.launch_id
    FROM launch_phase AS p
    INNER JOIN launch AS l USING (trace_id, launch_id)
    ASOF INNER JOIN outer_call AS c
        ON l.trace_id = c.trace_id AND l.pid = c.pid AND l.tid = c.tid AND l.ts_ns >= c.ts_ns
    WHERE l.ts_ns < c.end_ns AND p.node_id IS NULL
    QUALIFY
        NOT bool_or(coalesce(p.is_in_grad_mode, FALSE)) OVER (PARTITION BY l.trace_id, c.call_id)
),

-- Launches of unknown phase.
unclassified AS MATERIALIZED (
    SELECT
        trace_id, launch_id, p.launch_ts_ns, p.is_model, p.is_norm, p.is_multiplication,
        p.is_in_grad_mode,
        p.is_module_call AND c.launch_id IS NOT NULL AS is_whole_call,
        p.is_model AND p.is_without_gradients AS is_model_without_gradients,
        n.tid IS NOT NULL AS is_on_node_thread,
        coalesce(n.is_engine, FALSE) AS is_on_engine_thread
    FROM launch_phase AS p
    INNER JOIN launch AS l USING (trace_id, launch_id)
    LEFT JOIN called_whole AS c USING (trace_id, launch_id)
    LEFT JOIN node_thread AS n USING (trace_id, pid, tid)
    WHERE p.phase IS NULL OR (p.is_module_call AND c.launch_id IS NOT NULL)
),

-- Classified launches, calls of zero_grad (which may launch nothing), and model work of unknown
-- phase.
labeled_time AS (
    SELECT trace_id, launch_ts_ns AS at_ns, 'model' AS label
    FROM unclassified
    WHERE is_model
    UNION ALL
    SELECT
        trace_id, launch_ts_ns AS at_ns, CASE
            WHEN marked_row = '(zero_grad)' THEN 'zero_grad'
            WHEN is_derivative AND phase = 'backward' THEN 'derivative'
            ELSE phase
        END AS label
    FROM launch_phase
    WHERE
        phase IS NOT NULL
        AND NOT (is_module_call AND (trace_id, launch_id) IN (FROM called_whole))
    UNION ALL
    -- The forward op that created an autograd node marks a forward pass, even if it launches
    -- nothing.
    SELECT DISTINCT s.trace_id, e.ts_ns AS at_ns, 'forward' AS label
    FROM launch_context AS s
    INNER JOIN event AS e ON s.trace_id = e.trace_id AND s.forward_op_id = e.event_id
    SEMI JOIN launch_context AS f
        ON
            s.trace_id = f.trace_id
            AND s.forward_op_id = f.event_id
            AND f.node_id IS NULL
            AND f.marked_phase IS NULL
    UNION ALL
    SELECT e.trace_id, e.ts_ns AS at_ns, 'zero_grad' AS label
    FROM event AS e
    INNER JOIN range_marker AS m USING (category, name)
    WHERE m.row_name = '(zero_grad)'
),

-- Times that classify the launches around them. A forward pass may precede zero_grad if none
-- follows before the backward pass. Such a zero_grad is not a boundary.
boundary AS (
    SELECT trace_id, at_ns, label
    FROM labeled_time
    WINDOW other AS (PARTITION BY trace_id ORDER BY at_ns, label)
    QUALIFY
        label <> 'model'
        AND NOT (
            label = 'zero_grad'
            AND coalesce(
                lag(nullif(label, 'zero_grad') IGNORE NULLS) OVER other = 'model'
                AND lead(nullif(label, 'zero_grad') IGNORE NULLS) OVER other
                IN ('backward', 'recompute', 'derivative'),
                FALSE
            )
        )
),

numbered AS (
    SELECT
        p.trace_id, p.launch_id, p.launch_ts_ns, p.is_on_node_thread, b.label AS label_before,
        a.label AS label_after,
        bool_or(p.is_model) OVER (PARTITION BY p.trace_id, b.at_ns, a.at_ns) AS is_model_block
    FROM unclassified AS p
    ASOF LEFT JOIN boundary AS b
        ON p.trace_id = b.trace_id AND p.launch_ts_ns >= b.at_ns
    ASOF LEFT JOIN boundary AS a
        ON p.trace_id = a.trace_id AND p.launch_ts_ns < a.at_ns
    WHERE p.is_in_grad_mode
),

numbered_forward AS (
    SELECT
        trace_id, launch_id, launch_ts_ns,
        coalesce(label_before = 'forward', FALSE) AS is_proven_forward
    FROM numbered
    WHERE
        CASE
            -- Averages of parameters (EMA) are updated in grad mode too, and so are gradients
            -- unscaled between two optimizers.
            WHEN label_before = 'optimizer' AND label_after IN ('zero_grad', 'optimizer')
                THEN is_model_block
            WHEN
                coalesce(label_before, 'none') NOT IN ('backward', 'recompute', 'derivative')
                THEN TRUE
            WHEN label_after IN ('backward', 'recompute', 'derivative')
                THEN is_model_block AND NOT is_on_node_thread
            -- GEMMs between a backward pass and the optimizer process gradients (PowerSGD,
            -- Newton-Schulz) and belong to no model.
            WHEN label_after = 'optimizer' THEN FALSE
            ELSE is_model_block OR coalesce(label_after = 'forward', FALSE)
        END
),

labeled_boundary AS (
    SELECT trace_id, at_ns, label
    FROM boundary
    UNION ALL
    SELECT trace_id, launch_ts_ns AS at_ns, 'forward' AS label
    FROM numbered_forward
),

between AS (
    SELECT
        p.*, b.label AS label_before, b.at_ns AS before_ts_ns, a.label AS label_after,
        a.at_ns AS after_ts_ns
    FROM unclassified AS p
    ASOF LEFT JOIN labeled_boundary AS b
        ON p.trace_id = b.trace_id AND p.launch_ts_ns >= b.at_ns
    ASOF LEFT JOIN labeled_boundary AS a
        ON p.trace_id = a.trace_id AND p.launch_ts_ns < a.at_ns
)

SELECT
    p.trace_id, p.launch_id, p.label_before, p.before_ts_ns, p.label_after, p.after_ts_ns,
    coalesce(f.is_proven_forward, FALSE) AS is_proven_forward,
    p.is_on_node_thread, p.is_on_engine_thread,
    bool_or(p.is_model) OVER block AS is_model_block,
    coalesce(
        p.label_before IN ('backward', 'recompute', 'derivative')
        AND p.label_after = 'optimizer'
        AND p.launch_ts_ns >= min(p.launch_ts_ns) FILTER (p.is_norm) OVER block
        AND max(p.launch_ts_ns) FILTER (p.is_multiplication) OVER block
        > min(p.launch_ts_ns) FILTER (p.is_norm) OVER block,
        FALSE
    ) AS is_clipping,
    -- Evaluation starts at the first call or the first work of the model. Outside modules, nothing
    -- marks the start and end of a model, so only work without an adjacent forward pass counts.
    -- Optimizer steps also contain GEMMs, so such work counts only after the gradients are cleared.
    coalesce(
        bool_or(p.is_model_without_gradients) OVER block
        AND p.launch_ts_ns >= min(p.launch_ts_ns) FILTER (
            p.is_model_without_gradients OR p.is_whole_call
        ) OVER block
        AND (
            bool_or(p.is_whole_call) OVER block
            OR (
                coalesce(p.label_before, 'zero_grad') IN ('zero_grad', 'data', 'evaluation')
                AND coalesce(p.label_after, 'data') IN ('data', 'evaluation')
            )
        ),
        FALSE
    ) AS is_evaluation
FROM between AS p
LEFT JOIN numbered_forward AS f USING (trace_id, launch_id)
WINDOW block AS (PARTITION BY p.trace_id, p.before_ts_ns, p.after_ts_ns)
ORDER BY p.trace_id, p.launch_id
