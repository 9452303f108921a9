-- Kernels by GPU time, per device.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit  BIGINT = 20     number of rows per device; 0 for all
--   class  VARCHAR = NULL  only this class
-- Columns:
--   rank INTEGER, device VARCHAR
--   name       VARCHAR  kernel, copy, or op
--   class VARCHAR, kernel_count BIGINT
--   kernel_ns  BIGINT   sum of durations, ns; for a CPU op, its self time
--   mean_ns DOUBLE, min_ns BIGINT, max_ns BIGINT
--   std_ns     DOUBLE   sample standard deviation of the duration, ns; NULL for one event
--   wall_ns BIGINT, wall_pct DOUBLE
-- Keep:     rank, device, name, class, kernel_count, kernel_ns, mean_ns, wall_pct, max_ns
-- View:
--   browse  key=3 menu=kernels title="Kernels, copies and ops by name" ask=limit:0
--           columns=wall_pct,kernel_ns,kernel_count,class,name,mean_ns,rank,device
-- Invariant: min_ns <= mean_ns AND mean_ns <= max_ns
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns

WITH kernel_event AS (
    SELECT
        trace_id, device, name, class, event_id,
        sum(dur_ns)::BIGINT AS dur_ns,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM classified_events
    WHERE $class IS NULL OR class = $class
    GROUP BY trace_id, device, name, class, event_id
),

summed AS (
    SELECT
        w.trace_id, w.rank, w.device, r.name, r.class,
        count(*) AS kernel_count,
        sum(r.dur_ns)::BIGINT AS kernel_ns,
        sum(r.dur_ns)::BIGINT / count(*) AS mean_ns,
        min(r.dur_ns) AS min_ns,
        max(r.dur_ns) AS max_ns,
        stddev_samp(r.dur_ns ORDER BY r.dur_ns) AS std_ns,
        sum(r.wall_ns)::BIGINT AS wall_ns,
        100.0 * sum(r.wall_ns)::BIGINT / nullif(w.window_ns, 0) AS wall_pct
    FROM kernel_event AS r
    INNER JOIN device_windows AS w USING (trace_id, device)
    GROUP BY w.trace_id, w.rank, w.device, w.window_ns, r.name, r.class
)

SELECT * EXCLUDE (trace_id)
FROM summed
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY trace_id, device ORDER BY kernel_ns DESC, name, class
    ) <= $limit
ORDER BY rank NULLS LAST, trace_id, device, kernel_ns DESC, name, class
