-- Many small collectives, bound by latency rather than bandwidth.
-- Reported if the median message is below 1 MiB and there are at least ten collectives per step (or window). On a CPU,
-- communication threads also compete with compute for the same cores.
--
-- Kind:     advice
-- Scope:    run
-- Input:    collective_events

WITH messages AS (
    SELECT
        class,
        count(*) AS message_count,
        median(message_bytes) AS median_bytes,
        mode(phase) FILTER (device = 'cpu') AS cpu_phase,
        sum(dur_ns)::BIGINT AS comm_ns,
        coalesce(sum(dur_ns) FILTER (message_bytes >= 1 << 20), 0)::BIGINT AS large_ns
    FROM collective_events
    WHERE is_transfer AND message_bytes > 0
    GROUP BY class
),

steps AS (
    SELECT greatest(count(*), 1) AS step_count
    FROM (SELECT DISTINCT trace_id, step FROM step_ranges) AS marked
)

SELECT
    format(
        '{:,} {} collectives with a median size of {:,.0f} bytes take {}', message_count, class,
        median_bytes, in_ms(comm_ns) || of_ranks()
    ) AS what,
    'small messages: ' || class AS place,
    -- Below 64 KiB, latency dominates on any link. Large messages of the class keep their time.
    format(
        CASE
            WHEN median_bytes >= 65536 THEN 'latency class={0} x0.1; class={0} x0-1'
            WHEN large_ns = 0 THEN 'class={0} x0-0.1'
            ELSE 'class={0} x{1:.3f}-{2:.3f}'
        END, class, large_ns / comm_ns, 0.1 + 0.9 * large_ns / comm_ns
    )
    || coalesce(format('; kind=compute phase={} x0.5-1', cpu_phase), '') AS change,
    comm_ns - large_ns AS cost_ns,
    'Use larger buckets: DistributedDataParallel(bucket_cap_mb=25 or more), reduce_bucket_size '
    || 'and allgather_bucket_size (DeepSpeed), fully_shard per block (FSDP)' AS remedy,
    'tracekit query communication TRACE' AS evidence
FROM messages, steps
WHERE median_bytes < 1 << 20 AND message_count >= 10 * step_count AND comm_ns > large_ns
ORDER BY comm_ns DESC, class
LIMIT 2
