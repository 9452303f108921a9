-- How long did each step take, and what did it put on the device?
-- A device event belongs to the step whose range on the CPU holds its launch; on cpu, its own start. The row without
-- a step holds what was launched outside of all of them.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: device_events, device_windows, launches, steps
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu
--   step          BIGINT   number of the step; NULL for outside any step
--   start_ns      BIGINT   start on the CPU, ns since the first event of the trace
--   dur_ns        BIGINT   duration on the CPU, ns
--   kernel_count  BIGINT   device events
--   kernel_ns     BIGINT   sum of their durations, ns
--   wall_ns       BIGINT   busy time that is theirs, ns; adds up to the device's busy time
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns

WITH launch AS (
    SELECT
        trace_id,
        correlation,
        min(ts_ns) AS ts_ns
    FROM launches
    GROUP BY trace_id, correlation
),

started AS (
    SELECT
        e.trace_id,
        e.device,
        e.piece,
        e.dur_ns,
        e.wall_ns,
        CASE WHEN e.device = 'cpu' THEN e.ts_ns ELSE l.ts_ns END AS launch_ts_ns
    FROM device_events AS e
    LEFT JOIN launch AS l ON e.trace_id = l.trace_id AND e.correlation = l.correlation
    WHERE e.trace_id IN (SELECT trace_id FROM steps)
),

placed AS (
    SELECT
        started.*,
        CASE WHEN started.launch_ts_ns < s.end_ns THEN s.ts_ns END AS step_ts_ns
    FROM started
    ASOF LEFT JOIN steps AS s
        ON started.trace_id = s.trace_id AND started.launch_ts_ns >= s.ts_ns
),

step_work AS (
    SELECT
        trace_id,
        device,
        step_ts_ns,
        count(*) FILTER (piece = 0) AS kernel_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM placed
    GROUP BY trace_id, device, step_ts_ns
),

step_device AS (
    SELECT
        w.trace_id,
        w.rank,
        w.device,
        s.step,
        s.ts_ns,
        s.dur_ns
    FROM device_windows AS w
    INNER JOIN steps AS s ON w.trace_id = s.trace_id
    UNION ALL
    SELECT
        w.trace_id,
        w.rank,
        w.device,
        NULL,
        NULL,
        NULL
    FROM device_windows AS w
    WHERE w.trace_id IN (SELECT trace_id FROM steps)
)

SELECT
    sd.rank,
    sd.device,
    sd.step,
    sd.ts_ns - t.first_ts_ns AS start_ns,
    sd.dur_ns,
    coalesce(sw.kernel_count, 0) AS kernel_count,
    coalesce(sw.kernel_ns, 0) AS kernel_ns,
    coalesce(sw.wall_ns, 0) AS wall_ns
FROM step_device AS sd
INNER JOIN trace AS t ON sd.trace_id = t.trace_id
LEFT JOIN step_work AS sw
    ON
        sd.trace_id = sw.trace_id
        AND sd.device = sw.device
        AND sd.ts_ns IS NOT DISTINCT FROM sw.step_ts_ns
WHERE sd.ts_ns IS NOT NULL OR sw.kernel_count > 0
ORDER BY sd.rank NULLS LAST, sd.trace_id, sd.device, sd.ts_ns NULLS LAST
