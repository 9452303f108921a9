-- Time in which the program waits for data.
-- The training process loads the data itself, or its workers are too slow. The suggested number of workers is one more
-- than the steps need, and at most eight.
--
-- Kind:     advice
-- Scope:    run

-- A loader range and the Python function inside it are the same wait, so merge overlapping waits.
WITH waits AS (
    SELECT (trace_id, pid, tid) AS part, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
    FROM host_waits
    WHERE kind = 'data_loading'
),

loading AS (
    SELECT
        (part)[1] AS trace_id,
        count(*) AS wait_count,
        sum(end_ns - start_ns)::BIGINT AS wait_ns
    FROM interval_union('waits')
    GROUP BY ALL
),

worst AS (
    SELECT
        l.*, t.rank,
        EXISTS(
            SELECT 1 FROM event AS e
            WHERE e.trace_id = l.trace_id AND contains(e.name, '_MultiProcessingDataLoaderIter')
        )
            AS has_workers,
        (
            SELECT coalesce(sum(idle_ns), 0)::BIGINT
            FROM idle_gap AS g
            WHERE g.trace_id = l.trace_id AND g.cause = 'data_loading'
        ) AS idle_ns,
        t.last_end_ns - t.first_ts_ns AS span_ns,
        least(8, 1 + ceil(wait_ns / greatest(t.last_end_ns - t.first_ts_ns - wait_ns, 1)))::INTEGER
            AS worker_count
    FROM loading AS l
    INNER JOIN trace AS t USING (trace_id)
    ORDER BY wait_ns DESC, trace_id
    LIMIT 1
)

SELECT
    format(
        'The host waits for data: {:,}×, {} in total; this leaves the device idle for {}',
        wait_count, in_ms(wait_ns), in_ms(idle_ns)
    ) AS what,
    at_rank(rank, if(has_workers, 'slow data loader with workers', 'data loader without workers'))
        AS place,
    if(has_workers, 'loading remove', format('loading workers={}', worker_count)) AS change,
    wait_ns AS cost_ns,
    if(
        has_workers,
        'Use more workers, or do less in each: DataLoader(num_workers=…, prefetch_factor=4, '
        || 'persistent_workers=True). Precompute work that is the same in every epoch.',
        format(
            'Load batches ahead in workers: DataLoader(num_workers={}, pin_memory=True, '
            || 'persistent_workers=True)', worker_count
        )
    ) AS remedy,
    'tracekit query idle_gaps TRACE --cause data_loading' AS evidence
FROM worst
WHERE wait_ns > if(has_workers, 0.05 * span_ns, 0)
