-- Device events with the decoder part (role) that they belong to.
-- The rules of queries/rules/roles.toml decide first. Without modules, the position relative to norm or MLP kernels on
-- the stream decides. If a stream has no such kernels, the order of GEMMs decides, provided that attention and
-- activation alternate: after attention, a dense decoder runs the output projection, the MLP, and QKV of the next layer,
-- or the head after the last layer. Norms and rotary embeddings of several kernels come from `fusion_chain`. Backward
-- work has the role of its forward op.
--
-- Kind:     table
-- Created:  on demand
-- Columns:
--   trace_id INTEGER, event_id BIGINT, device VARCHAR, piece BIGINT, phase VARCHAR, module_id INTEGER
--   row_name VARCHAR
--   role         VARCHAR  part, or a row such as (optimizer) for work outside modules; other: inside a module without a role
--   step         BIGINT   step, as in attribution
--   dur_ns BIGINT, wall_ns BIGINT
--   is_inferred  BOOLEAN  role inferred from the position on the stream or among modules, or from a matching event

WITH repeated AS (
    SELECT a.trace_id, a.event_id, k.launch_id, k.op_id
    FROM attribution AS a
    INNER JOIN attribution AS k ON a.trace_id = k.trace_id AND a.like_event_id = k.event_id
),

work AS (
    SELECT
        d.trace_id, d.event_id, d.piece, d.device, d.stream, d.ts_ns, d.dur_ns, d.wall_ns,
        d.name, d.class, d.kind, d.phase, d.module_id, d.row_name, d.is_inferred,
        d.launch_id IS NOT NULL AS is_launched,
        d.step, x.module_part,
        coalesce(m.is_in_attention, FALSE) AS is_in_attention,
        m.rule_id AS module_rule_id, m.role AS module_role,
        m.is_inferred AS is_module_role_inferred, CASE
            WHEN d.phase = 'backward' THEN coalesce(x.forward_op_id, d.op_id, r.op_id)
            ELSE coalesce(d.op_id, r.op_id)
        END AS role_op_id
    FROM attributed_events AS d
    LEFT JOIN repeated AS r ON d.trace_id = r.trace_id AND d.event_id = r.event_id
    LEFT JOIN launch_context AS x
        ON d.trace_id = x.trace_id AND coalesce(d.launch_id, r.launch_id) = x.event_id
    LEFT JOIN module_roles AS m
        ON d.trace_id = m.trace_id AND d.module_id = m.module_id
),

named AS (
    SELECT w.*, o.name AS role_op, o.ts_ns AS op_ts_ns
    FROM work AS w
    LEFT JOIN record AS o ON w.trace_id = o.trace_id AND w.role_op_id = o.event_id
),

named_text AS (
    SELECT DISTINCT module_part, role_op, class, is_in_attention
    FROM named
),

named_role AS MATERIALIZED (
    SELECT
        module_part, role_op, class, is_in_attention,
        least(
            role_rule_of_part(module_part, is_in_attention),
            role_rule_of_op(role_op, is_in_attention),
            role_rule_of_class(class, is_in_attention)
        ) AS rule_id
    FROM named_text
),

ruled AS (
    SELECT
        n.*,
        CASE
            WHEN n.module_rule_id <= r.rule_id OR r.rule_id IS NULL THEN n.module_role
            WHEN n.module_role IN ('QKV', 'Output') AND r.applies_to = 'class'
                THEN n.module_role
            ELSE r.role
        END AS role
    FROM named AS n
    LEFT JOIN named_role AS k
        ON
            n.module_part IS NOT DISTINCT FROM k.module_part
            AND n.role_op IS NOT DISTINCT FROM k.role_op
            AND n.class = k.class
            AND n.is_in_attention = k.is_in_attention
    LEFT JOIN role_rule AS r ON k.rule_id = r.rule_id
),

-- Batched GEMMs next to the softmax of their module: Bmm0 before it, Bmm1 after it.
attention_op AS (
    SELECT DISTINCT trace_id, module_id, role_op_id, op_ts_ns, role
    FROM ruled
    WHERE role IN ('Bmm', 'Softmax') AND role_op_id IS NOT NULL
),

product AS (
    SELECT
        trace_id, role_op_id, CASE
            WHEN role = 'Bmm' AND lead(role) OVER called = 'Softmax' THEN 'Bmm0'
            WHEN role = 'Bmm' AND lag(role) OVER called = 'Softmax' THEN 'Bmm1'
        END AS role
    FROM attention_op
    WINDOW called AS (PARTITION BY trace_id, module_id ORDER BY op_ts_ns, role_op_id)
),

unplaced AS (SELECT DISTINCT trace_id FROM ruled WHERE row_name = '(unattributed)'),

unplaced_name AS (
    SELECT DISTINCT name
    FROM ruled
    WHERE trace_id IN (SELECT trace_id FROM unplaced)
),

landmark_name AS MATERIALIZED (
    SELECT name, role_rule_of_landmark(name, FALSE) AS rule_id
    FROM unplaced_name
),

marked AS (
    SELECT
        r.*,
        k.role AS landmark,
        CASE WHEN k.role IN ('norm', 'attention', 'rope', 'ffn') THEN k.role END AS place,
        CASE WHEN k.role IN ('attention', 'ffn') THEN k.role END AS block,
        coalesce(
            bool_or(k.role = 'norm' AND r.phase <> 'backward') OVER stream
            OR (
                bool_or(k.role = 'ffn' AND r.phase <> 'backward') OVER stream
                AND NOT bool_or(is_activation(r.name, r.class) AND r.phase <> 'backward')
                    OVER stream
            ), FALSE
        ) AS is_by_place,
        r.phase IN ('backward', 'optimizer') AS is_behind,
        -- Unfused attention is a softmax between batched GEMMs. Those GEMMs are not landmarks.
        CASE
            WHEN is_behind THEN NULL
            WHEN r.role_op = 'aten::_softmax' THEN 'attention'
            WHEN k.role = 'attention' THEN 'attention'
            WHEN is_activation(r.name, r.class) THEN 'ffn'
        END AS turn,
        NOT is_behind
        AND coalesce(k.role = 'gemm', FALSE)
        AND coalesce(r.role_op NOT IN ('aten::bmm', 'aten::baddbmm'), TRUE) AS is_product,
        NOT is_behind
        AND coalesce(is_gemm(r.class) AND NOT is_product, FALSE) AS is_batched
    FROM ruled AS r
    LEFT JOIN landmark_name AS n ON r.name = n.name
    LEFT JOIN role_rule AS k ON n.rule_id = k.rule_id
    WINDOW stream AS (PARTITION BY r.trace_id, r.device, r.stream)
),

-- A section is the work from one attention or activation kernel to the next, within a forward pass.
passed AS (
    SELECT
        trace_id, device, stream, event_id, piece, turn, is_product, is_batched, ts_ns,
        role_op_id, role_op,
        count(if(is_behind, 1, NULL)) OVER before AS pass
    FROM marked
    WHERE NOT is_by_place
    WINDOW before AS (
        PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id, piece
    )
),

numbered AS (
    SELECT
        *,
        count(turn) OVER before AS section
    FROM passed
    WINDOW before AS (
        PARTITION BY trace_id, device, stream, pass ORDER BY ts_ns, event_id, piece
    )
),

product_of AS (
    SELECT
        n.*,
        count(*) OVER (
            PARTITION BY n.trace_id, n.device, n.stream, n.pass, n.section
            ORDER BY n.ts_ns, n.event_id, n.piece
        ) AS number,
        if(n.role_op = 'aten::addmm', 1, 0) AS place,
        try_cast(json_extract(o.args, format('$."Input Dims"[{}][1]', place)) AS BIGINT)
            AS summed_size,
        try_cast(json_extract(o.args, format('$."Input Dims"[{}][1]', place + 1)) AS BIGINT)
            AS given_size
    FROM numbered AS n
    LEFT JOIN record AS o
        ON
            n.trace_id = o.trace_id
            AND n.role_op_id = o.event_id
            AND n.role_op IN ('aten::mm', 'aten::addmm')
    WHERE n.is_product
),

product_section AS (
    SELECT
        trace_id, device, stream, pass, section,
        count(*) AS product_count,
        list(summed_size ORDER BY number) AS summed_sizes,
        arg_min(given_size, number) AS first_given_size,
        arg_max(given_size, number) AS given_size
    FROM product_of
    GROUP BY ALL
),

section_turn AS (
    SELECT
        trace_id, device, stream, pass, section, max(turn) AS turn
    FROM numbered
    GROUP BY ALL
),

section AS (
    SELECT
        t.*,
        coalesce(p.product_count, 0) AS product_count,
        p.summed_sizes,
        lag(p.given_size) OVER passes AS given_before,
        lead(t.turn) OVER passes AS next_turn,
        lead(t.pass) OVER (
            PARTITION BY t.trace_id, t.device, t.stream ORDER BY t.pass, t.section
        ) IS NOT NULL AS is_followed,
        -- Position of the GEMM in the section that ends the MLP (down projection).
        CASE
            WHEN coalesce(t.turn <> 'ffn', TRUE) THEN NULL
            WHEN given_before IS NOT NULL AND list_count(p.summed_sizes) > 0
                THEN coalesce(
                    list_position(p.summed_sizes, given_before),
                    list_position(p.summed_sizes, given_before // 2),
                    -- Equal sizes: the rest of the MLP was not recomputed.
                    if(p.first_given_size = given_before, 1, NULL)
                )
            WHEN p.product_count IN (1, 2) THEN 1
            WHEN p.product_count = 5 THEN 2
        END AS closing
    FROM section_turn AS t
    LEFT JOIN product_section AS p USING (trace_id, device, stream, pass, section)
    WINDOW passes AS (
        PARTITION BY t.trace_id, t.device, t.stream, t.pass ORDER BY t.section
    )
),

decoder AS (
    SELECT
        trace_id, device, stream,
        mode(product_count - closing) FILTER (turn = 'ffn' AND next_turn = 'attention')
            AS usual_count
    FROM section
    GROUP BY trace_id, device, stream
    HAVING
        bool_and(turn IS DISTINCT FROM next_turn OR turn IS NULL)
        AND coalesce(
            bool_and(product_count BETWEEN 2 AND 3) FILTER (
                turn = 'attention' AND next_turn = 'ffn'
            ), FALSE
        )
        AND coalesce(
            bool_and(coalesce(closing <= 2, FALSE)) FILTER (
                turn = 'ffn' AND next_turn = 'attention'
            ), FALSE
        )
        AND usual_count BETWEEN 1 AND 3
),

ordered AS (
    SELECT
        n.trace_id, n.event_id, n.piece, n.is_product, n.is_batched, n.role_op,
        n.turn AS own_turn,
        s.turn, s.next_turn, s.is_followed, d.usual_count, s.closing,
        s.product_count - coalesce(s.closing, 0) AS left_count,
        count(if(n.is_product, 1, NULL)) OVER (
            PARTITION BY n.trace_id, n.device, n.stream, n.pass, n.section
            ORDER BY n.ts_ns, n.event_id, n.piece
        ) AS number
    FROM numbered AS n
    INNER JOIN decoder AS d USING (trace_id, device, stream)
    INNER JOIN section AS s USING (trace_id, device, stream, pass, section)
),

by_order AS (
    SELECT
        trace_id, event_id, piece, CASE
            WHEN own_turn = 'attention'
                THEN if(role_op = 'aten::_softmax', 'Softmax', 'Attention')
            WHEN own_turn = 'ffn' THEN 'MLP'
            WHEN turn = 'ffn' AND number < closing THEN 'MLP'
            WHEN is_batched AND turn = 'attention' AND number = 0 THEN 'Bmm1'
            WHEN
                is_batched
                AND next_turn = 'attention'
                AND number = coalesce(closing, 0) + left_count
                THEN 'Bmm0'
            WHEN NOT is_product THEN NULL
            WHEN turn = 'attention' AND number = 1 THEN 'Output'
            WHEN turn = 'attention' AND next_turn = 'ffn' THEN 'MLP'
            WHEN turn = 'ffn' AND number = closing THEN 'MLP'
            WHEN turn = 'ffn' AND next_turn = 'attention' AND left_count = usual_count
                THEN 'QKV'
            WHEN turn = 'ffn' AND next_turn = 'attention' AND left_count = usual_count + 1
                THEN if(number = closing + 1, 'Linear', 'QKV')
            WHEN
                turn = 'ffn' AND next_turn IS NULL AND left_count = 1
                AND closing IS NOT NULL AND is_followed
                THEN 'Linear'
            WHEN turn IS NULL AND next_turn = 'attention' AND left_count = usual_count
                THEN 'QKV'
        END AS role_by_order
    FROM ordered
),

around AS (
    SELECT
        *,
        any_value(place) OVER before AS place_before,
        any_value(place) OVER after AS place_after,
        any_value(block) OVER before AS block_before,
        any_value(block) OVER after AS block_after
    FROM marked
    WINDOW
        before AS (
            PARTITION BY trace_id, device, stream ORDER BY ts_ns DESC, event_id DESC, piece DESC
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ),
        after AS (
            PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id, piece
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        )
),

chain AS (
    SELECT c.trace_id, c.event_id, min(r.role) AS chain_role
    FROM fusion_chain AS c
    INNER JOIN fusion_rule AS r USING (rule_id)
    WHERE c.trace_id IN (SELECT trace_id FROM unplaced)
    GROUP BY ALL
),

placed AS (
    SELECT
        *,
        CASE
            WHEN coalesce(row_name, '') <> '(unattributed)' OR NOT is_launched THEN NULL
            WHEN chain_role IS NOT NULL THEN chain_role
            WHEN NOT is_by_place THEN role_by_order
            WHEN phase NOT IN ('forward', 'prefill', 'decode', 'mixed', 'verify') THEN NULL
            WHEN landmark = 'norm' THEN 'RMSNorm'
            WHEN landmark = 'rope' THEN 'RoPE'
            WHEN landmark = 'attention' THEN 'Attention'
            WHEN landmark = 'cache' THEN 'QKV'
            WHEN landmark = 'ffn' THEN 'MLP'
            WHEN landmark = 'gemm' AND place_before = 'attention' THEN 'Output'
            WHEN landmark = 'gemm' AND place_before = 'ffn' AND place_after IN ('norm', 'ffn')
                THEN 'MLP'
            WHEN landmark = 'gemm' AND block_after = 'attention' THEN 'QKV'
            WHEN landmark = 'gemm' AND place_before = 'norm' AND place_after IS NULL
                THEN 'Linear'
            WHEN landmark = 'gemm' AND 'ffn' IN (place_before, place_after) THEN 'MLP'
            WHEN landmark = 'gemm' AND block_before = 'ffn' AND block_after IS NULL
                THEN 'Linear'
            WHEN landmark = 'gemm' THEN NULL
            WHEN place_before IN ('norm', 'ffn') AND block_after = 'ffn' THEN 'MLP'
            WHEN block_after = 'attention' AND place_before IN ('rope', 'norm') THEN 'Attention'
        END AS role_by_place
    FROM around
    LEFT JOIN by_order AS o USING (trace_id, event_id, piece)
    LEFT JOIN chain AS c USING (trace_id, event_id)
),

of_forward_op AS (
    SELECT trace_id, role_op_id, min(role_by_place) AS forward_role
    FROM placed
    WHERE role_by_place IS NOT NULL AND role_op_id IS NOT NULL
    GROUP BY ALL
),

known AS (
    SELECT
        p.* REPLACE (
            coalesce(
                p.role_by_place,
                if(
                    p.phase = 'backward' AND p.row_name = '(unattributed)',
                    f.forward_role, NULL
                )
            ) AS role_by_place
        )
    FROM placed AS p
    LEFT JOIN of_forward_op AS f USING (trace_id, role_op_id)
)

SELECT
    p.trace_id, p.event_id, p.device, p.piece, p.phase, p.module_id, p.row_name, CASE
        WHEN p.kind = 'comm' THEN 'non-overlapping communication'
        WHEN p.row_name NOT IN ('(unattributed)', '(communication)') THEN p.row_name
        WHEN p.role_by_place IS NOT NULL THEN p.role_by_place
        WHEN p.role = 'Bmm' THEN coalesce(b.role, 'Attention')
        WHEN p.role IS NOT NULL THEN p.role
        WHEN p.row_name IS NOT NULL THEN p.row_name
        WHEN p.is_in_attention THEN 'other in attention'
        ELSE 'other'
    END AS role, p.step, p.dur_ns, p.wall_ns,
    p.is_inferred OR (
        p.kind <> 'comm'
        AND (
            p.role_by_place IS NOT NULL
            OR (p.row_name IS NULL AND p.is_module_role_inferred AND p.role = p.module_role)
        )
    ) AS is_inferred
FROM known AS p
LEFT JOIN product AS b USING (trace_id, role_op_id)
