-- Launch benchmarks (`tracekit bench launches`) of kernels, graphs, and ops.
-- The timer wall_clock measures the host time of a call. The timer cuda_event measures the time per call on the device
-- while the launch queue is full.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   run          VARCHAR
--   device       VARCHAR  cpu or cuda:0
--   device_name  VARCHAR
--   op           VARCHAR  empty_kernel, graph_replay, stream_sync, or op_call
--   series       VARCHAR  number of kernels of a graph (kernels_10), or the work that a synchronization waits for
--   timer VARCHAR, median_ns DOUBLE
--   low_ns       DOUBLE   lower bound of the confidence interval of the median, ns; NULL for few samples
--   high_ns      DOUBLE   upper bound of the confidence interval of the median, ns
--   confidence_pct DOUBLE, interval_pct DOUBLE, below_pct DOUBLE, above_pct DOUBLE, min_ns DOUBLE
--   repeat_count BIGINT
--   inner_count  BIGINT   calls per sample
--   thread_count  INTEGER
--   reason       VARCHAR  why there is no time
-- Invariant: low_ns IS NULL OR (low_ns <= median_ns AND median_ns <= high_ns)
-- Invariant: reason IS NOT NULL OR median_ns IS NOT NULL

SELECT
    run, device, device_name, op, series, timer, median_ns, low_ns, high_ns, confidence_pct,
    interval_pct, below_pct, above_pct, min_ns, repeat_count, inner_count, thread_count,
    missing AS reason
FROM bench_points('launch')
ORDER BY run, run_id, bench_id
