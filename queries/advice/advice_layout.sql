-- Are tensors converted between memory formats?
-- Kernels that only turn NCHW into NHWC or back.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, attributed_events
-- Columns:
--   what      VARCHAR  what was seen
--   place     VARCHAR  where
--   change    VARCHAR  what `tracekit predict` is asked, changes with "; " between them; NULL where it is not recorded
--   at_most   VARCHAR  the same for the upper end of the gain; NULL where that is no other
--   cost_ns   BIGINT   how long that took, ns; NULL where it is not known
--   remedy    VARCHAR  what to do
--   evidence  VARCHAR  the command that shows it
-- Invariant: cost_ns IS NULL OR cost_ns > 0

WITH kernels AS (
    SELECT
        regexp_extract(name, '(?i)(nchwtonhwc|nhwctonchw)') AS word,
        count(*) AS work_count,
        sum(dur_ns)::BIGINT AS work_ns
    FROM attributed_events
    WHERE kind = 'compute' AND regexp_matches(name, '(?i)nchwtonhwc|nhwctonchw')
    GROUP BY ALL
)

SELECT
    format('{} kernels convert the layout, {}', sum(work_count), in_ms(sum(work_ns))) AS what,
    string_agg(word, ', ' ORDER BY word) AS place,
    string_agg(format('name=*{}* remove', word), '; ' ORDER BY word) AS change,
    NULL::VARCHAR AS at_most,
    sum(work_ns)::BIGINT AS cost_ns,
    'one format everywhere: model.to(memory_format=torch.channels_last), and the input too'
        AS remedy,
    'tracekit query kernels TRACE' AS evidence
FROM kernels
HAVING sum(work_ns) > 0
