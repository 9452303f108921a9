-- How far are the devices apart in each step?
-- The lengths of steps on the devices, as in steps, spread over all devices that have the step: the shortest, the median
-- and the longest, and on which rank. The median is the lower one of two.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   steps
-- Input:    steps
-- Columns:
--   step         BIGINT   number of the step
--   rank_count   BIGINT   devices that it put work on
--   min_ns       BIGINT   the shortest, ns
--   min_rank     INTEGER  on this rank
--   median_ns    BIGINT   the median, ns
--   max_ns       BIGINT   the longest, ns
--   max_rank     INTEGER  on this rank
--   spread_pct   DOUBLE   max_ns less min_ns of the median, 0 to 100 and more
-- Invariant: min_ns <= median_ns AND median_ns <= max_ns AND rank_count > 0

SELECT
    step,
    count(*) AS rank_count,
    min(span_ns) AS min_ns,
    arg_min(rank, (span_ns, rank)) AS min_rank,
    quantile_disc(span_ns, 0.5) AS median_ns,
    max(span_ns) AS max_ns,
    arg_max(rank, (span_ns, -rank)) AS max_rank,
    100.0 * (max(span_ns) - min(span_ns)) / nullif(quantile_disc(span_ns, 0.5), 0) AS spread_pct
FROM steps
WHERE step IS NOT NULL AND span_ns > 0
GROUP BY step
ORDER BY step
