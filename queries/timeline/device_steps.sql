-- How long did each step take on each device?
-- From its first device event to that of the next step: the host may run ahead of the device, so the range of a step
-- on the CPU is no measure of its work. The last one ends with its last event, but is no shorter than its range.
--
-- Kind:     view
-- Requires: attributed_events, step_ranges, interval_neighbours
-- Columns:
--   trace_id  INTEGER -> trace           the trace
--   device    VARCHAR -> device_windows  number of the device, or cpu
--   step      BIGINT -> step_ranges      number of the step
--   start_ns  BIGINT                     start of its first device event, ns
--   span_ns   BIGINT                     length on the device, ns

WITH work AS (
    SELECT
        d.trace_id,
        d.device,
        d.step,
        min(d.ts_ns) AS start_ns,
        max(d.end_ns) AS end_ns
    FROM attributed_events AS d
    WHERE d.step IS NOT NULL
    GROUP BY d.trace_id, d.device, d.step
),

on_cpu AS (
    SELECT
        trace_id,
        step,
        max(end_ns) - min(ts_ns) AS dur_ns
    FROM step_ranges
    GROUP BY trace_id, step
)

SELECT
    work.trace_id,
    work.device,
    work.step,
    work.start_ns,
    coalesce(
        next_start_ns((work.trace_id, work.device), work.start_ns, work.step) - work.start_ns,
        greatest(work.end_ns - work.start_ns, on_cpu.dur_ns)
    ) AS span_ns
FROM work
LEFT JOIN on_cpu ON work.trace_id = on_cpu.trace_id AND work.step = on_cpu.step
