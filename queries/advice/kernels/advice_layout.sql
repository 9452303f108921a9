-- Kernels that convert tensors between memory formats.
-- Counts the conversions of cuDNN between NCHW and NHWC and the batched transposes of MIOpen.
--
-- Kind:     advice
-- Scope:    run

WITH kernels AS (
    SELECT
        regexp_extract(name, '(?i)(nchwtonhwc|nhwctonchw|^batched_transpose)') AS word,
        count(*) AS work_count,
        sum(dur_ns)::BIGINT AS work_ns
    FROM attributed_events
    WHERE kind = 'compute'
    GROUP BY word
    HAVING word <> ''
)

SELECT
    format(
        '{:,} kernels convert between memory formats ({})', sum(work_count)::BIGINT,
        in_ms(sum(work_ns)) || of_ranks()
    ) AS what,
    'memory format conversions: ' || string_agg(word, ', ' ORDER BY word) AS place,
    string_agg(format('name=*{}* remove', word), '; ' ORDER BY word) AS change,
    sum(work_ns)::BIGINT AS cost_ns,
    'Use one memory format for the model and its input: '
    || 'model.to(memory_format=torch.channels_last) (on AMD, with PYTORCH_MIOPEN_SUGGEST_NHWC=1)'
        AS remedy,
    'tracekit query kernels TRACE' AS evidence
FROM kernels
HAVING sum(work_ns) > 0
