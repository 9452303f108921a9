-- Collective benchmarks (`tracekit bench collectives`).
-- Reproduces Figures 13 to 15 of arXiv 2311.03687. Times are from the slowest rank. Message sizes follow
-- nccl-tests: the data of one rank, which is the output for all-gather and the input for reduce-scatter. Bus bandwidth
-- is algorithm bandwidth times 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter, and all-to-all, and 1
-- for the rest. A single rank has no bus bandwidth because it transfers nothing.
--
-- Kind:     analysis
-- Scope:    runs
-- Params:
--   best  BOOLEAN = FALSE  only the best point of each op and group
-- Columns:
--   run                   VARCHAR
--   device                VARCHAR  cpu or cuda:0, of rank 0
--   device_name           VARCHAR
--   op                    VARCHAR  all_reduce, all_gather, …; send_recv: each rank sends to the next
--   backend               VARCHAR  nccl or gloo
--   group_size            INTEGER
--   dtype                 VARCHAR  element type
--   message_bytes BIGINT, median_ns DOUBLE
--   low_ns                DOUBLE   lower bound of the confidence interval of the median, ns; NULL for few samples
--   high_ns               DOUBLE   upper bound of the confidence interval of the median, ns
--   confidence_pct DOUBLE, interval_pct DOUBLE, below_pct DOUBLE, above_pct DOUBLE, repeat_count BIGINT
--   algorithm_bytes_per_s DOUBLE
--   bus_factor            DOUBLE   ratio of bus bandwidth to algorithm bandwidth
--   bus_bytes_per_s       DOUBLE
--   low_bus_bytes_per_s   DOUBLE   bus bandwidth at high_ns, bytes/s
--   high_bus_bytes_per_s  DOUBLE   bus bandwidth at low_ns, bytes/s
--   is_best               BOOLEAN  highest bus bandwidth of its run, op, backend, and group
--   is_smallest           BOOLEAN  smallest message with a time; its time is the latency
--   timer                 VARCHAR
--   thread_count          INTEGER  number of host threads per rank
--   reason                VARCHAR  why there is no time or no bandwidth
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
        WHEN message_bytes IS NULL OR group_size IS NULL THEN 'the benchmark record has no size'
        WHEN group_size = 1 THEN 'one rank moves no data'
        WHEN factor IS NULL THEN 'the bus factor of this op is unknown'
    END AS reason
FROM ranked
WHERE is_best OR NOT $best
ORDER BY run, run_id, bench_id
