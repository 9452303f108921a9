-- Kernel chains that a library offers as one fused kernel.
-- The chains come from queries/rules/fusions.toml and from `[[fusion]]` in a rules file. The fused kernel is assumed to
-- take as long as the longest kernel of the chain, without copies in between.
--
-- Kind:     advice
-- Scope:    run
-- Input:    fusion_chain

WITH chain_total AS (
    SELECT
        rule_id, chosen, phase,
        count(*) FILTER (is_first) AS chain_count,
        count(*) AS work_count,
        coalesce(sum(dur_ns) FILTER (NOT is_longest), 0)::BIGINT AS saved_ns
    FROM fusion_chain
    GROUP BY rule_id, chosen, phase
),

every_call AS (
    SELECT
        coalesce('op=' || chosen_name(op_name), 'name=' || chosen_name(name)) AS chosen,
        phase,
        sum(dur_ns) AS all_ns
    FROM attributed_events
    WHERE device <> 'cpu'
    GROUP BY ALL
),

scaled AS (
    SELECT
        g.*,
        format('{} phase={} x{:.3f}', g.chosen, g.phase, 1 - g.saved_ns / e.all_ns) AS change
    FROM chain_total AS g
    INNER JOIN every_call AS e USING (chosen, phase)
)

SELECT
    format(
        '{}: {:,} chains of {} kernels; all but the longest kernel of each chain take {}',
        r.name, sum(s.chain_count),
        round(sum(s.work_count) / sum(s.chain_count))::BIGINT,
        in_ms(sum(s.saved_ns)) || of_ranks()
    ) AS what,
    'unfused ' || r.name AS place,
    string_agg(s.change, '; ' ORDER BY s.saved_ns DESC, s.change) FILTER (s.saved_ns > 0) AS change,
    sum(s.saved_ns)::BIGINT AS cost_ns,
    r.remedy,
    'tracekit query kernel_sequences TRACE' AS evidence
FROM scaled AS s
INNER JOIN fusion_rule AS r USING (rule_id)
GROUP BY r.rule_id, r.name, r.remedy
HAVING sum(s.saved_ns) > 0
ORDER BY cost_ns DESC, place
