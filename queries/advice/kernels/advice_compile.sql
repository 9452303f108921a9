-- Chains of small kernels that torch.compile would fuse (`compile_chain`).
-- No chains are reported if the run already uses torch.compile.
--
-- Kind:     advice
-- Scope:    run

WITH member AS (
    SELECT
        coalesce(m.rollup_path, m.path) AS module,
        c.dur_ns,
        row_number() OVER (PARTITION BY c.chain_id ORDER BY c.dur_ns DESC, c.event_id) = 1
            AS is_longest
    FROM compile_chain AS c
    LEFT JOIN module AS m USING (trace_id, module_id)
    WHERE
        NOT EXISTS (FROM compiled_regions)
        AND NOT EXISTS (FROM attributed_events WHERE is_fused(class))
),

largest AS (
    SELECT module
    FROM member
    WHERE module IS NOT NULL
    GROUP BY module
    ORDER BY sum(dur_ns) FILTER (NOT is_longest) DESC NULLS LAST, module
    LIMIT 1
)

SELECT
    format(
        '{:,} kernels between GEMMs take {}; as {:,} fused kernels, they could take {}, and the '
        || 'host would launch {:,} fewer',
        count(*), in_ms(sum(dur_ns)) || of_ranks(), count(*) FILTER (is_longest),
        in_ms(sum(dur_ns) FILTER (is_longest)), count(*) FILTER (NOT is_longest)
    ) AS what,
    'chains of small kernels' || coalesce(', mostly in ' || (SELECT module FROM largest), '')
        AS place,
    'compile on' AS change,
    sum(dur_ns) FILTER (NOT is_longest)::BIGINT AS cost_ns,
    'Use torch.compile(model) or fused kernels (Liger, Apex, Triton)' AS remedy,
    'tracekit query kernel_classes TRACE' AS evidence
FROM member
HAVING count(*) FILTER (NOT is_longest) > 0
