-- What does it cost to launch work: a kernel, a graph, a stream synchronisation, the call of a small op?
-- The points of tracekit bench launches. By wall_clock it is the time that the host spends on the call; by cuda_event the
-- time that passes on the device from one call to the next, when as many wait as the queue takes.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   run             VARCHAR  name of the run's folder
--   device          VARCHAR  cpu or cuda:0
--   device_name     VARCHAR  product
--   op              VARCHAR  empty_kernel, graph_replay, stream_sync or op_call
--   series          VARCHAR  of a graph its kernels: kernels_10; of a synchronisation what it waits for
--   timer           VARCHAR  wall_clock: time of the host; cuda_event: time on the device
--   median_ns       DOUBLE   median time of one call, ns
--   low_ns          DOUBLE   lower end of the median's confidence interval, ns; NULL for few samples
--   high_ns         DOUBLE   its upper end, ns
--   confidence_pct  DOUBLE   least confidence of the interval, 0 to 100
--   interval_pct    DOUBLE   width of the interval, of the median
--   below_pct       DOUBLE   median_ns - low_ns, of the median
--   above_pct       DOUBLE   high_ns - median_ns, of the median
--   min_ns          DOUBLE   shortest sample, ns
--   repeat_count    BIGINT   samples
--   inner_count     BIGINT   calls in one sample
--   thread_count    INTEGER  host threads
--   reason          VARCHAR  why there is no time
-- Invariant: low_ns IS NULL OR (low_ns <= median_ns AND median_ns <= high_ns)
-- Invariant: reason IS NOT NULL OR median_ns IS NOT NULL

SELECT
    run, device, device_name, op, series, timer, median_ns, low_ns, high_ns, confidence_pct,
    interval_pct, below_pct, above_pct, min_ns, repeat_count, inner_count, thread_count,
    missing AS reason
FROM bench_points('launch')
ORDER BY run, run_id, bench_id
