-- Clock offset of each rank, estimated from the ends of collectives.
-- All ranks leave an all-reduce, all-gather, reduce-scatter, or all-to-all at about the same time. The offset is the
-- median difference between the end on a rank and the median end, over collectives that all ranks recorded. The error
-- is the largest spread of these differences on any rank; it covers uneven exits and clock drift. Only the dependency
-- graph and exports compare times of different ranks, with these offsets.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   rank INTEGER, device VARCHAR
--   collective_count  BIGINT   number of collectives shared with all other ranks
--   offset_ns         BIGINT   time by which the clock of the rank is ahead of the median clock, ns; NULL if unknown
--   error_ns          BIGINT   error of the offset, ns; NULL if there is only one collective
--   spread_ns         BIGINT   range of the offsets of single collectives, ns
--   is_beyond_error   BOOLEAN  the offset exceeds its error; NULL if unknown
--   reason            VARCHAR  why there is no offset; else NULL
-- Invariant: (offset_ns IS NULL) = (reason IS NOT NULL)

WITH device AS (
    SELECT
        trace_id, device,
        count(*) AS collective_count,
        quantile_disc(difference_ns, 0.5) AS offset_ns,
        max(difference_ns) - min(difference_ns) AS spread_ns,
        if(count(*) > 1, max(max(difference_ns) - min(difference_ns)) OVER (), NULL) AS error_ns
    FROM collective_ends
    GROUP BY trace_id, device
)

SELECT
    t.rank, c.device,
    coalesce(c.collective_count, 0) AS collective_count,
    c.offset_ns, c.error_ns, c.spread_ns,
    abs(c.offset_ns) > c.error_ns AS is_beyond_error,
    CASE
        WHEN c.offset_ns IS NULL AND count(DISTINCT coalesce(t.rank, -t.trace_id - 1)) OVER () < 2
            THEN 'only one rank'
        WHEN c.offset_ns IS NULL THEN 'no matched collective includes all ranks of the run'
    END AS reason
FROM trace AS t
LEFT JOIN device AS c USING (trace_id)
ORDER BY t.rank NULLS LAST, t.trace_id, c.device
