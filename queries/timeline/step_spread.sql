-- Spread of step lengths across devices, per step.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   steps per step
-- Input:    steps
-- Columns:
--   step        BIGINT
--   rank_count  BIGINT   number of devices with work in the step
--   min_ns      BIGINT   shortest length, ns
--   min_rank    INTEGER  rank with the shortest length
--   median_ns   BIGINT   median length (the lower of the two middle values), ns
--   max_ns      BIGINT   longest length, ns
--   max_rank    INTEGER  rank with the longest length
--   spread_pct  DOUBLE   (max_ns - min_ns) / median_ns, percent
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
