-- Launch latency and duration of launch calls, per device.
-- The delay is the time from the end of the launch call to the start of the work, or 0 if the work started earlier.
-- Work that started before the call (clock difference) and traces with a coarse host clock have no delays. Long delays
-- mean that the host runs ahead. Short delays with idle time mean that the host is the bottleneck. Percentiles: nearest
-- rank.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   long_call_ns   BIGINT = 50000   launch calls above this are outliers, ns
--   long_delay_ns  BIGINT = 100000  delays above this are outliers, ns
-- Columns:
--   rank                 INTEGER
--   device               VARCHAR  device number
--   launch               VARCHAR  launch call, such as cudaLaunchKernel
--   launch_count         BIGINT   number of calls
--   kernel_count         BIGINT
--   launch_ns            BIGINT   sum of call durations, ns
--   mean_launch_ns       DOUBLE   mean call duration, ns
--   max_launch_ns        BIGINT   longest call, ns
--   long_call_count      BIGINT   number of calls above long_call_ns
--   mean_delay_ns        DOUBLE   mean delay, ns
--   median_delay_ns      BIGINT   median delay, ns
--   p99_delay_ns         BIGINT   99th percentile of delays, ns
--   max_delay_ns         BIGINT   longest delay, ns
--   long_delay_count     BIGINT   number of device events with a delay above long_delay_ns
--   short_count          BIGINT   number of device events shorter than their launch call, or than their part of a graph launch
--   started_early_count  BIGINT   number of device events that started during the launch call
-- Invariant: launch_count <= kernel_count AND long_call_count <= launch_count
-- Invariant: median_delay_ns <= p99_delay_ns AND p99_delay_ns <= max_delay_ns

WITH linked AS (
    SELECT
        e.trace_id, e.device, l.launch_id, l.name, l.dur_ns AS launch_ns,
        if(
            e.ts_ns < l.ts_ns OR r.host_clock_ns IS NOT NULL, NULL, greatest(e.launch_delay_ns, 0)
        ) AS delay_ns,
        e.ts_ns >= l.ts_ns AND e.launch_delay_ns < 0 AS is_early,
        e.dur_ns * count(*) OVER (PARTITION BY l.trace_id, l.launch_id) < l.dur_ns AS is_short,
        row_number() OVER (PARTITION BY l.trace_id, l.launch_id, e.device) = 1 AS is_first
    FROM attributed_events AS e
    INNER JOIN launch AS l USING (trace_id, launch_id)
    INNER JOIN recording AS r USING (trace_id)
    WHERE e.link = 'launch'
)

SELECT
    t.rank, k.device, k.name AS launch,
    count(*) FILTER (k.is_first) AS launch_count,
    count(*) AS kernel_count,
    sum(k.launch_ns) FILTER (k.is_first)::BIGINT AS launch_ns,
    avg(k.launch_ns) FILTER (k.is_first) AS mean_launch_ns,
    max(k.launch_ns) AS max_launch_ns,
    count(*) FILTER (k.is_first AND k.launch_ns > $long_call_ns) AS long_call_count,
    avg(k.delay_ns) AS mean_delay_ns,
    quantile_disc(k.delay_ns, 0.5) AS median_delay_ns,
    quantile_disc(k.delay_ns, 0.99) AS p99_delay_ns,
    max(k.delay_ns) AS max_delay_ns,
    count(*) FILTER (k.delay_ns > $long_delay_ns) AS long_delay_count,
    count(*) FILTER (k.is_short) AS short_count,
    count(*) FILTER (k.is_early) AS started_early_count
FROM linked AS k
INNER JOIN trace AS t USING (trace_id)
GROUP BY t.trace_id, t.rank, k.device, k.name
ORDER BY t.rank NULLS LAST, t.trace_id, k.device, kernel_count DESC, k.name
