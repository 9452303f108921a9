-- How long do collectives take among the ranks, and which bandwidth is that?
-- The points of tracekit bench collectives, as in the paper's Figures 13 to 15. A time is that of the slowest rank. Message
-- bytes are those that nccl-tests counts: what each rank has in all, of an all-gather its output, of a reduce-scatter its
-- input. Algorithm bandwidth is message bytes over time; bus bandwidth that times 2(n-1)/n for all-reduce, (n-1)/n for
-- all-gather, reduce-scatter and all-to-all, 1 otherwise. With one rank nothing moves, and there is no bandwidth.
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   best  BOOLEAN = FALSE  only the point of each op and group with the highest bandwidth
-- Columns:
--   run                    VARCHAR  name of the run's folder
--   device                 VARCHAR  cpu or cuda:0, of rank 0
--   device_name            VARCHAR  product
--   op                     VARCHAR  all_reduce, all_gather, …; send_recv: each rank sends to the next one
--   backend                VARCHAR  nccl or gloo
--   group_size             INTEGER  ranks
--   dtype                  VARCHAR  type of the elements
--   message_bytes          BIGINT   size of the message, bytes
--   median_ns              DOUBLE   median time of one call, ns
--   low_ns                 DOUBLE   lower end of the median's confidence interval, ns; NULL for few samples
--   high_ns                DOUBLE   its upper end, ns
--   confidence_pct         DOUBLE   least confidence of the interval, 0 to 100
--   interval_pct           DOUBLE   width of the interval, of the median
--   below_pct              DOUBLE   median_ns - low_ns, of the median
--   above_pct              DOUBLE   high_ns - median_ns, of the median
--   repeat_count           BIGINT   samples
--   algorithm_bytes_per_s  DOUBLE   message_bytes / median_ns, bytes/s
--   bus_factor             DOUBLE   share of the message that crosses the slowest wire
--   bus_bytes_per_s        DOUBLE   algorithm_bytes_per_s * bus_factor, bytes/s
--   low_bus_bytes_per_s    DOUBLE   the same at high_ns
--   high_bus_bytes_per_s   DOUBLE   the same at low_ns
--   is_best                BOOLEAN  the highest bus bandwidth of its run, op, backend and group
--   is_smallest            BOOLEAN  the smallest point with a time of its run, device and kind, for the latency
--   timer                  VARCHAR  cuda_event or wall_clock
--   thread_count           INTEGER  host threads of one rank
--   reason                 VARCHAR  why there is no time or no bandwidth
-- Invariant: low_ns IS NULL OR (low_ns <= median_ns AND median_ns <= high_ns)
-- Invariant: bus_bytes_per_s IS NULL OR abs(bus_bytes_per_s - algorithm_bytes_per_s * bus_factor) <= 1e-9 * bus_bytes_per_s
-- Invariant: bus_factor IS NULL OR (0 < bus_factor AND bus_factor < 2)
-- Invariant: reason IS NOT NULL OR bus_bytes_per_s IS NOT NULL

WITH point AS (
    SELECT
        *,
        if(group_size > 1, wire_factor(named_collective(op), group_size), NULL) AS factor,
        if(group_size > 1, bench_bytes_per_s(message_bytes, median_ns), NULL)
            AS algorithm_bytes_per_s,
        if(group_size > 1, bench_bus_bytes_per_s(op, group_size, message_bytes, median_ns), NULL)
            AS bus_bytes_per_s
    FROM bench_points('collective')
),

ranked AS (
    SELECT
        *,
        bus_bytes_per_s IS NOT NULL
        AND row_number() OVER (
            PARTITION BY run_id, device, op, backend, group_size
            ORDER BY bus_bytes_per_s DESC NULLS LAST, bench_id
        ) = 1 AS is_best,
        median_ns IS NOT NULL
        AND row_number() OVER (
            PARTITION BY run_id, device, op, backend, group_size
            ORDER BY median_ns IS NULL, message_bytes, bench_id
        ) = 1 AS is_smallest
    FROM point
)

SELECT
    run, device, device_name, op, backend, group_size, dtype, message_bytes, median_ns, low_ns,
    high_ns, confidence_pct, interval_pct, below_pct, above_pct, repeat_count,
    algorithm_bytes_per_s, factor AS bus_factor, bus_bytes_per_s,
    if(group_size > 1, bench_bus_bytes_per_s(op, group_size, message_bytes, high_ns), NULL)
        AS low_bus_bytes_per_s,
    if(group_size > 1, bench_bus_bytes_per_s(op, group_size, message_bytes, low_ns), NULL)
        AS high_bus_bytes_per_s,
    is_best, is_smallest, timer, thread_count, CASE
        WHEN missing IS NOT NULL THEN missing
        WHEN message_bytes IS NULL OR group_size IS NULL THEN 'the line has no size'
        WHEN group_size = 1 THEN 'one rank moves nothing'
        WHEN factor IS NULL THEN 'the bus factor of this op is not known'
    END AS reason
FROM ranked
WHERE is_best OR NOT $best
ORDER BY run, run_id, bench_id
