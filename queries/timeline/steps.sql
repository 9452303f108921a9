-- Length and GPU work of each step, per device.
-- A device event belongs to the step whose range on the host contains its launch, on any thread. On cpu, the start of
-- the op decides. The row with step NULL contains work launched outside steps or without a recorded launch.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    step_ranges
-- Columns:
--   rank INTEGER, device VARCHAR
--   step           BIGINT  step number; NULL outside steps
--   start_ns       BIGINT  start on the host, ns since the first event of the trace
--   dur_ns         BIGINT  duration on the host, ns
--   span_ns        BIGINT  length on the device, as in device_steps, ns
--   work_ns        BIGINT
--   other_ns       BIGINT  busy time of work outside steps that runs during the step, ns
--   kernel_count   BIGINT  number of device events; NULL if none was recorded
--   kernel_ns      BIGINT  sum of durations, ns; NULL if none was recorded
--   wall_ns        BIGINT  busy time, ns; overlap counts once; adds up to the device's busy time; NULL if none was recorded
--   queued_ns      BIGINT  part of wall_ns from work launched before the recording, ns; 0 unless step is NULL; NULL if no work was recorded
--   missing_count  BIGINT  number of launches whose work was not recorded
-- View:
--   breakdown  totals=step_totals
--   page  lines=rank,device
--   browse     key=9 menu=steps title="Steps by device"
--              columns=step,dur_ns,span_ns,work_ns,wall_ns,kernel_ns,kernel_count,start_ns,rank,device
-- Invariant: wall_ns IS NULL OR (0 <= wall_ns AND wall_ns <= kernel_ns)
-- Invariant: queued_ns IS NULL OR (0 <= queued_ns AND queued_ns <= wall_ns)
-- Empty: no steps are marked: call the profiler's step() in the loop, or name the ranges of steps with --step

WITH step_work AS (
    SELECT
        trace_id, d.device, a.step,
        count(*) FILTER (d.piece = 0) AS kernel_count,
        sum(d.dur_ns)::BIGINT AS kernel_ns,
        sum(d.wall_ns)::BIGINT AS wall_ns,
        coalesce(sum(d.wall_ns) FILTER (WHERE a.link = 'before_window'), 0)::BIGINT AS queued_ns
    FROM device_events AS d
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    WHERE trace_id IN (SELECT trace_id FROM step_ranges)
    GROUP BY trace_id, d.device, a.step
),

-- Ranges with the same step number are one step, from the first start to the last end.
marked AS (
    SELECT trace_id, step, min(ts_ns) AS ts_ns, max(end_ns) - min(ts_ns) AS dur_ns
    FROM step_ranges
    GROUP BY trace_id, step
),

step_device AS (
    SELECT w.trace_id, w.rank, w.device, m.step, m.ts_ns, m.dur_ns
    FROM device_windows AS w
    INNER JOIN marked AS m USING (trace_id)
    UNION ALL
    SELECT w.trace_id, w.rank, w.device, NULL AS step, NULL AS ts_ns, NULL AS dur_ns
    FROM device_windows AS w
    WHERE w.trace_id IN (SELECT trace_id FROM step_ranges)
)

SELECT
    sd.rank, sd.device, sd.step,
    sd.ts_ns - t.first_ts_ns AS start_ns,
    sd.dur_ns, ds.span_ns, ds.work_ns, ds.other_ns,
    CASE WHEN coalesce(us.has_work, TRUE) THEN coalesce(sw.kernel_count, 0) END AS kernel_count,
    CASE WHEN coalesce(us.has_work, TRUE) THEN coalesce(sw.kernel_ns, 0) END AS kernel_ns,
    CASE WHEN coalesce(us.has_work, TRUE) THEN coalesce(sw.wall_ns, 0) END AS wall_ns,
    CASE WHEN coalesce(us.has_work, TRUE) THEN coalesce(sw.queued_ns, 0) END AS queued_ns,
    coalesce(us.missing_count, 0)::BIGINT AS missing_count
FROM step_device AS sd
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN step_work AS sw
    ON sd.trace_id = sw.trace_id AND sd.device = sw.device AND sd.step IS NOT DISTINCT FROM sw.step
LEFT JOIN device_steps AS ds
    ON sd.trace_id = ds.trace_id AND sd.device = ds.device AND sd.step = ds.step
LEFT JOIN unrecorded_step AS us ON sd.trace_id = us.trace_id AND sd.step = us.step
WHERE sd.step IS NOT NULL OR sw.kernel_count > 0
ORDER BY sd.rank NULLS LAST, sd.trace_id, sd.device, sd.ts_ns NULLS LAST
