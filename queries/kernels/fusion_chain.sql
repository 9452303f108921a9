-- Kernels in chains that a library replaces with one fused kernel (queries/rules/fusions.toml and user rules).
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> device_events, rule_id INTEGER
--   chosen  VARCHAR  term that selects the kernel in a predicted change: op=…, or name=… without an op
--   phase VARCHAR, dur_ns BIGINT, is_longest BOOLEAN, is_first BOOLEAN

WITH step AS (
    SELECT
        rule_id,
        unnest(string_split(chain, ' > ')) AS pattern,
        unnest(range(len(string_split(chain, ' > ')))) AS number,
        len(string_split(chain, ' > ')) AS step_count
    FROM fusion_rule
),

work AS (
    SELECT
        trace_id, event_id, device, stream, phase, dur_ns,
        moves_only(class) AS is_copy,
        coalesce(op_name, '') || ' ' || name AS call,
        -- Changes select work by op, or by kernel name if no op is recorded.
        coalesce('op=' || chosen_name(op_name), 'name=' || chosen_name(name)) AS chosen,
        row_number() OVER stream AS position
    FROM attributed_events
    WHERE device <> 'cpu'
    WINDOW stream AS (PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id)
),

call AS MATERIALIZED (SELECT DISTINCT call FROM work),

matched AS MATERIALIZED (
    SELECT c.call, s.rule_id, s.number, s.step_count
    FROM call AS c, step AS s
    WHERE regexp_matches(c.call, s.pattern)
),

possible AS (
    SELECT rule_id
    FROM matched
    GROUP BY rule_id
    HAVING count(DISTINCT number) = any_value(step_count)
),

-- Work that may run between kernels of a chain without being part of it.
between_call AS MATERIALIZED (
    SELECT c.call, r.rule_id
    FROM call AS c, fusion_rule AS r
    WHERE
        r.between <> ''
        AND regexp_matches(c.call, r.between)
        AND (c.call, r.rule_id) NOT IN (SELECT call, rule_id FROM matched)
),

placed AS (
    SELECT
        w.*, p.rule_id,
        row_number() OVER (
            PARTITION BY p.rule_id, w.trace_id, w.device, w.stream ORDER BY w.position
        ) AS place
    FROM work AS w
    CROSS JOIN possible AS p
    ANTI JOIN between_call AS b ON w.call = b.call AND p.rule_id = b.rule_id
),

chain AS (
    SELECT
        p.rule_id, p.trace_id, p.device, p.stream,
        p.place - m.number AS start,
        min(p.position) AS first_position,
        max(p.position) AS last_position
    FROM placed AS p
    INNER JOIN matched AS m USING (call, rule_id)
    GROUP BY p.rule_id, p.trace_id, p.device, p.stream, start
    HAVING count(DISTINCT m.number) = any_value(m.step_count)
),

-- If chains overlap, keep the first.
disjoint_chain AS (
    SELECT *
    FROM chain
    QUALIFY coalesce(
        first_position > max(last_position) OVER (
            PARTITION BY rule_id, trace_id, device, stream ORDER BY first_position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), TRUE
    )
),

member AS (
    SELECT
        w.trace_id, w.event_id, a.rule_id, w.chosen, w.phase, w.dur_ns,
        row_number() OVER (
            PARTITION BY a.rule_id, a.trace_id, a.device, a.stream, a.first_position
            ORDER BY w.dur_ns DESC, w.position
        ) = 1 AS is_longest,
        w.position = a.first_position AS is_first
    FROM work AS w
    INNER JOIN possible AS p ON TRUE
    ASOF INNER JOIN disjoint_chain AS a
        ON
            w.trace_id = a.trace_id
            AND w.device = a.device
            AND w.stream IS NOT DISTINCT FROM a.stream
            AND p.rule_id = a.rule_id
            AND w.position >= a.first_position
    WHERE
        w.position <= a.last_position
        AND (w.is_copy OR (w.call, a.rule_id) IN (SELECT call, rule_id FROM matched))
)

SELECT trace_id, event_id, rule_id, chosen, phase, dur_ns, is_longest, is_first
FROM member
