-- How long did each step take on each device?
-- From its first device event to that of the next step: the host may run ahead of the device, so the range of a step
-- on the CPU is no measure of its work. The last one ends with its last event, but is no shorter than its range: that is
-- beyond the window of the device where the host went on for longer, and ends_with says so. Where the program evaluates the
-- model between two steps, the first of them ends where the device begins with that.
--
-- Kind:     view
-- Requires: device_events, attribution, step_ranges, interval_neighbours
-- Columns:
--   trace_id   INTEGER -> trace           the trace
--   device     VARCHAR -> device_windows  number of the device, or cpu
--   step       BIGINT -> step_ranges      number of the step
--   start_ns   BIGINT                     start of its first device event, ns
--   span_ns    BIGINT                     length on the device, ns
--   work_ns    BIGINT                     from its first device event to the end of its last, ns
--   ends_with  VARCHAR                    what span_ns ends with: next step, evaluation, last event or range on the CPU

WITH work AS (
    SELECT trace_id, d.device, a.step, min(d.ts_ns) AS start_ns, max(d.end_ns) AS end_ns
    FROM device_events AS d
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    WHERE a.step IS NOT NULL
    GROUP BY trace_id, d.device, a.step
),

on_cpu AS (
    SELECT trace_id, step, max(end_ns) - min(ts_ns) AS dur_ns
    FROM step_ranges
    GROUP BY trace_id, step
),

evaluation AS (
    SELECT trace_id, d.device, d.ts_ns
    FROM device_events AS d
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    WHERE a.step IS NULL AND a.phase = 'evaluation'
),

followed AS (
    SELECT
        w.*,
        next_start_ns((w.trace_id, w.device), w.start_ns, w.step) AS next_ns,
        e.ts_ns AS evaluation_ns
    FROM work AS w
    ASOF LEFT JOIN evaluation AS e
        ON w.trace_id = e.trace_id AND w.device = e.device AND w.end_ns <= e.ts_ns
)

SELECT
    work.trace_id, work.device, work.step, work.start_ns,
    if(
        work.next_ns IS NULL,
        greatest(work.end_ns - work.start_ns, on_cpu.dur_ns),
        least(work.next_ns, work.evaluation_ns) - work.start_ns
    ) AS span_ns,
    work.end_ns - work.start_ns AS work_ns,
    CASE
        WHEN work.next_ns IS NULL AND on_cpu.dur_ns > work.end_ns - work.start_ns
            THEN 'range on the CPU'
        WHEN work.next_ns IS NULL THEN 'last event'
        WHEN work.evaluation_ns < work.next_ns THEN 'evaluation'
        ELSE 'next step'
    END AS ends_with
FROM followed AS work
LEFT JOIN on_cpu USING (trace_id, step)
