-- Chains of small kernels that torch.compile would fuse.
-- A chain consists of consecutive element-wise, norm, and reduction kernels of one module (or phase) on a stream.
-- Chains are not reported where torch.compile is already used.
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
        module,
        count(*) OVER chain AS length,
        dur_ns,
        row_number() OVER (chain ORDER BY dur_ns DESC, position) = 1 AS is_longest
    FROM numbered
    WINDOW chain AS (PARTITION BY trace_id, device, stream, module, phase, number)
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
        '{} element-wise, norm, and reduction kernels run in chains; all but the longest kernel '
        || 'of each chain take {}', count(*), in_ms(sum(dur_ns) FILTER (NOT is_longest))
    ) AS what,
    'chains of small kernels' || coalesce(', mostly in ' || (SELECT module FROM largest), '')
        AS place,
    'compile on' AS change,
    sum(dur_ns) FILTER (NOT is_longest)::BIGINT AS cost_ns,
    'Use torch.compile(model) or fused kernels (Liger, Apex, Triton)' AS remedy,
    'tracekit query kernel_classes TRACE' AS evidence
FROM chains
WHERE length > 1
HAVING count(*) > 0
