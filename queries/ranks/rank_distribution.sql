-- Distribution of each part of the time over ranks, with the extreme ranks.
-- Parts are the parts of the timeline, the mean step, waits in collectives, own time between collectives, and busy time
-- by phase. Quantiles are nearest-rank. If ranks have equal values, the lowest rank is named.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    timeline
-- Columns:
--   part         VARCHAR  window, compute, exposed_comm, exposed_memcpy, idle, step, comm_wait, own, or phase/…
--   rank_count   BIGINT   number of devices
--   min_ns       BIGINT   minimum, ns
--   min_rank     INTEGER  rank with the minimum
--   median_ns    BIGINT   median, ns
--   median_rank  INTEGER  rank with the median
--   p95_ns       BIGINT   95th percentile, ns
--   p95_rank     INTEGER  rank with the 95th percentile
--   max_ns       BIGINT   maximum, ns
--   max_rank     INTEGER  rank with the maximum
--   mad_ns       DOUBLE   median absolute deviation, ns
--   spread_pct   DOUBLE   (max_ns - min_ns) / median_ns, percent; NULL if the median is 0
-- Invariant: min_ns <= median_ns AND median_ns <= p95_ns AND p95_ns <= max_ns

WITH phase_sum AS (
    SELECT phase, rank, device, sum(wall_ns)::BIGINT AS value_ns
    FROM phases
    GROUP BY phase, rank, device
),

-- A rank without a phase counts as 0.
phase_name AS (
    SELECT phase, row_number() OVER (ORDER BY min(rowid)) AS position
    FROM phases
    GROUP BY phase
),

step_mean AS (
    SELECT rank, device, avg(span_ns)::BIGINT AS value_ns
    FROM steps
    WHERE step IS NOT NULL AND span_ns IS NOT NULL
    GROUP BY rank, device
),

value AS (
    SELECT
        p.position, p.part, t.rank,
        CASE p.part
            WHEN 'window' THEN t.window_ns
            WHEN 'compute' THEN t.compute_ns
            WHEN 'exposed_comm' THEN t.exposed_comm_ns
            WHEN 'exposed_memcpy' THEN t.exposed_memcpy_ns
            WHEN 'idle' THEN t.idle_ns
            WHEN 'own' THEN w.own_ns
            WHEN 'comm_wait' THEN if(w.matched_count > 0, w.comm_wait_ns, NULL)
        END AS value_ns
    FROM timeline AS t
    INNER JOIN rank_waits AS w USING (rowid)
    CROSS JOIN (
        VALUES
        (1, 'window'), (2, 'compute'), (3, 'exposed_comm'), (4, 'exposed_memcpy'), (5, 'idle'),
        (7, 'own'), (8, 'comm_wait')
    ) AS p (position, part)
    UNION ALL
    SELECT 6, 'step', rank, value_ns
    FROM step_mean
    UNION ALL
    SELECT 100 + p.position, 'phase/' || p.phase, d.rank, coalesce(s.value_ns, 0)
    FROM timeline AS d
    CROSS JOIN phase_name AS p
    LEFT JOIN phase_sum AS s
        ON p.phase = s.phase AND d.rank IS NOT DISTINCT FROM s.rank AND d.device = s.device
),

spread AS (
    SELECT
        position, part,
        count(*) AS rank_count,
        min(value_ns) AS min_ns,
        quantile_disc(value_ns, 0.5) AS median_ns,
        quantile_disc(value_ns, 0.95) AS p95_ns,
        max(value_ns) AS max_ns,
        mad(value_ns) AS mad_ns
    FROM value
    WHERE value_ns IS NOT NULL
    GROUP BY position, part
    HAVING max(value_ns) > 0
)

SELECT
    s.part,
    any_value(s.rank_count) AS rank_count,
    any_value(s.min_ns) AS min_ns,
    min(v.rank) FILTER (v.value_ns = s.min_ns) AS min_rank,
    any_value(s.median_ns) AS median_ns,
    min(v.rank) FILTER (v.value_ns = s.median_ns) AS median_rank,
    any_value(s.p95_ns) AS p95_ns,
    min(v.rank) FILTER (v.value_ns = s.p95_ns) AS p95_rank,
    any_value(s.max_ns) AS max_ns,
    min(v.rank) FILTER (v.value_ns = s.max_ns) AS max_rank,
    any_value(s.mad_ns) AS mad_ns,
    100.0 * (any_value(s.max_ns) - any_value(s.min_ns)) / nullif(any_value(s.median_ns), 0)
        AS spread_pct
FROM spread AS s
INNER JOIN value AS v USING (position, part)
GROUP BY s.position, s.part
ORDER BY s.position
