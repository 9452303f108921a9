-- A rank whose compute takes longer than the median of all ranks.
--
-- Kind:     advice
-- Scope:    run
-- Input:    trace WHERE rank > 0

WITH ranks AS (
    SELECT t.rank, sum(a.dur_ns)::BIGINT AS compute_ns
    FROM attributed_events AS a
    INNER JOIN trace AS t USING (trace_id)
    WHERE a.kind = 'compute' AND t.rank IS NOT NULL
    GROUP BY t.rank
),

slowest AS (
    SELECT
        arg_max(rank, compute_ns) AS rank,
        (max(compute_ns) - median(compute_ns))::BIGINT AS more_ns,
        max(compute_ns) AS compute_ns,
        count(*) AS rank_count
    FROM ranks
)

SELECT
    format(
        'Rank {} computes for {}, {} more than the median of {} ranks', rank, in_ms(compute_ns),
        in_ms(more_ns), rank_count
    ) AS what,
    format('slow rank {}', rank) AS place,
    'ranks=median' AS change,
    more_ns AS cost_ns,
    'Balance the work (sequence lengths, layers per stage). If it is balanced, check the '
    || 'device: clocks, temperature, other processes, its node.' AS remedy,
    'tracekit query stragglers TRACE' AS evidence
FROM slowest
WHERE rank_count > 1 AND more_ns > 0
