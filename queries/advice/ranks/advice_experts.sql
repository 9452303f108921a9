-- Imbalanced load of experts across ranks.
-- Covers modules and kernels that are named like experts. Compares the GPU time of each rank with the mean over all
-- ranks that take part in all-to-alls.
--
-- Kind:     advice
-- Scope:    run
-- Input:    trace WHERE rank > 0

WITH form (term, module_glob, name_glob) AS (
    VALUES
    ('module=*expert*', '*expert*', NULL),
    ('name=*[gG]rouped*', NULL, '*[gG]rouped*'),
    ('name=*[mM]oe*', NULL, '*[mM]oe*')
),

work AS (
    SELECT
        t.rank, a.name, m.path,
        count(*) FILTER (collective_of(a.class) = 'alltoall') AS exchange_count,
        coalesce(sum(a.dur_ns) FILTER (a.kind = 'compute'), 0)::BIGINT AS work_ns
    FROM attributed_events AS a
    INNER JOIN trace AS t USING (trace_id)
    LEFT JOIN module AS m ON a.trace_id = m.trace_id AND a.module_id = m.module_id
    WHERE t.rank IS NOT NULL AND (SELECT count(*) FROM trace) > 1
    GROUP BY ALL
),

loads AS (
    SELECT f.term, w.rank, sum(w.work_ns)::BIGINT AS work_ns
    FROM work AS w
    INNER JOIN form AS f ON w.path GLOB f.module_glob OR w.name GLOB f.name_glob
    WHERE w.work_ns > 0 AND w.rank IN (SELECT rank FROM work WHERE exchange_count > 0)
    GROUP BY ALL
),

summed AS (
    SELECT
        term,
        count(*) AS rank_count,
        avg(work_ns) AS mean_ns,
        max(work_ns) AS most_ns,
        arg_max(rank, (work_ns, -rank)) AS rank
    FROM loads
    GROUP BY term
)

SELECT
    format(
        'The experts of rank {} compute for {}, {:.2f}× the mean of {} ranks', rank, in_ms(most_ns),
        most_ns / mean_ns, rank_count
    ) AS what,
    format('slow experts of rank {}', rank) AS place,
    (
        SELECT
            string_agg(
                format('{} rank={} x{:.3f}', l.term, l.rank, mean_ns / l.work_ns), '; '
                ORDER BY l.rank
            )
        FROM loads AS l
        WHERE l.term = summed.term
    ) AS change,
    (most_ns - mean_ns)::BIGINT AS cost_ns,
    'Balance the router (auxiliary loss or bias, capacity), or replicate the busiest experts '
    || '(vLLM --enable-eplb, SGLang --enable-eplb)' AS remedy,
    'tracekit query expert_balance TRACE' AS evidence
FROM summed
WHERE rank_count > 1 AND most_ns > mean_ns
ORDER BY mean_ns * rank_count DESC, term
LIMIT 1
