-- Which modules do element-wise work in kernels that could be one?
-- Element-wise, norm and reduction kernels of a module, or where none is recorded of a phase, one after the other on a
-- stream: fused they take what the longest of each chain takes, for each reads and writes the same tensors. Nothing is
-- said where torch.compile or its kernels run already.
--
-- Kind:     advice
-- Scope:    run

WITH work AS (
    SELECT
        a.trace_id, a.device, a.stream, a.class, a.dur_ns, a.phase,
        coalesce(m.rollup_path, m.path) AS module,
        is_fusible(a.class) AS is_fusible,
        row_number() OVER stream AS position
    FROM attributed_events AS a
    LEFT JOIN module AS m USING (trace_id, module_id)
    WHERE
        a.kind = 'compute'
        AND a.device <> 'cpu'
        AND coalesce(a.row_name, '(unattributed)') = '(unattributed)'
        AND a.phase NOT IN ('optimizer', 'other')
        AND NOT EXISTS (FROM compiled_regions)
        AND NOT EXISTS (FROM attributed_events WHERE is_fused(class))
    WINDOW stream AS (PARTITION BY a.trace_id, a.device, a.stream ORDER BY a.ts_ns, a.event_id)
),

numbered AS (
    SELECT
        *, position - row_number() OVER (
            PARTITION BY trace_id, device, stream, module, phase ORDER BY position
        ) AS number
    FROM work
    WHERE is_fusible
),

chains AS (
    SELECT
        module, phase, class,
        count(*) OVER chain AS length,
        dur_ns,
        row_number() OVER (chain ORDER BY dur_ns DESC, position) = 1 AS is_longest
    FROM numbered
    WINDOW chain AS (PARTITION BY trace_id, device, stream, module, phase, number)
),

phases AS (
    SELECT
        phase, class,
        count(*) FILTER (length > 1) AS work_count,
        sum(dur_ns)::BIGINT AS all_ns,
        coalesce(sum(dur_ns) FILTER (is_longest), 0)::BIGINT AS left_ns
    FROM chains
    GROUP BY phase, class
    HAVING count(*) FILTER (length > 1 AND NOT is_longest) > 0
),

largest AS (
    SELECT module
    FROM chains
    WHERE module IS NOT NULL
    GROUP BY module
    ORDER BY sum(dur_ns) FILTER (NOT is_longest) DESC NULLS LAST, module
    LIMIT 1
)

SELECT
    format(
        '{} element-wise, norm and reduction kernels run one after the other, {} but for the '
        || 'longest of each chain', sum(work_count), in_ms(sum(all_ns - left_ns))
    ) AS what,
    coalesce('most in ' || (SELECT module FROM largest), 'chains of small kernels') AS place,
    string_agg(
        format('class={} phase={} x{:.3f}', class, phase, left_ns / all_ns), '; '
        ORDER BY phase, class
    ) AS change,
    NULL::VARCHAR AS at_most,
    sum(all_ns - left_ns)::BIGINT AS cost_ns,
    'torch.compile of the model, or fused kernels (Liger, apex, Triton)' AS remedy,
    'tracekit query kernel_classes TRACE' AS evidence
FROM phases
HAVING count(*) > 0
