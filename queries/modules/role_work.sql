-- Which part of a decoder does each device event serve: embedding, QKV, RoPE, attention, MLP, norms, …?
-- The rules of queries/rules/roles.toml, and for what they leave open in graph replays, the place on the stream.
-- role_work('module') is a relation.
--
-- Kind:     macro
-- Requires: module, attributed_events, attribution, surroundings, module_roles
-- Params:
--   modules  VARCHAR  name of the relation of modules: table module
-- Columns:
--   trace_id     INTEGER  the trace
--   event_id     BIGINT   the event
--   device       VARCHAR  number of the device, or cpu
--   piece        BIGINT   number of the piece of a CPU op, from 0; 0 for work of accelerators
--   phase        VARCHAR  as in phases
--   module_id    INTEGER  module, as in table module; NULL where none
--   row_name     VARCHAR  row of modules where there is no module
--   role         VARCHAR  the part; rows in parentheses are those of modules; other: inside a module without a role
--   dur_ns       BIGINT   duration, ns
--   step         BIGINT   step, as in table attribution
--   wall_ns      BIGINT   busy time that is its own, ns
--   is_inferred  BOOLEAN  its role comes from its place on the stream, its module's among others, or from repetition

CREATE OR REPLACE MACRO role_work(modules) AS TABLE (
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
        LEFT JOIN surroundings AS x
            ON d.trace_id = x.trace_id AND coalesce(d.launch_id, r.launch_id) = x.event_id
        LEFT JOIN module_roles(modules) AS m
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

    -- Batched products before and behind the softmax of their module.
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
            CASE WHEN k.role IN ('attention', 'ffn') THEN k.role END AS block
        FROM ruled AS r
        LEFT JOIN landmark_name AS n ON r.name = n.name
        LEFT JOIN role_rule AS k ON n.rule_id = k.rule_id
    ),

    around AS (
        SELECT
            *,
            last_value(place IGNORE NULLS) OVER before AS place_before,
            first_value(place IGNORE NULLS) OVER after AS place_after,
            last_value(block IGNORE NULLS) OVER before AS block_before,
            first_value(block IGNORE NULLS) OVER after AS block_after
        FROM marked
        WINDOW
            before AS (
                PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id, piece
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            after AS (
                PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id, piece
                ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
            )
    ),

    placed AS (
        SELECT
            *,
            CASE
                WHEN coalesce(row_name, '') <> '(unattributed)' OR NOT is_launched THEN NULL
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
    FROM placed AS p
    LEFT JOIN product AS b USING (trace_id, role_op_id)
);
