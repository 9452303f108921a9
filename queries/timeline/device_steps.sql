-- Length of each step on each device.
-- The host may run ahead, so step ranges on the host do not measure the work. A step starts on a device when the host
-- starts it or when the device has finished earlier work, whichever is later. It ends when the next step starts or an
-- evaluation starts. The last step ends with its last work or its range, whichever is later. The range extends it at
-- most to the length of the longest other step. If the trace has one step, that step ends with its last work.
--
-- Kind:     table
-- Input:    step_ranges
-- Columns:
--   trace_id INTEGER -> trace, device VARCHAR -> device_windows, step BIGINT -> step_ranges
--   start_ns  BIGINT  start on the device, ns
--   span_ns   BIGINT  length on the device, ns
--   work_ns   BIGINT  from the start of the first work of the step to the end of its last work, ns
--   other_ns  BIGINT  busy time of work outside steps that runs during the step, ns

WITH work AS (
    SELECT trace_id, d.device, a.step, min(d.ts_ns) AS first_ns, max(d.end_ns) AS last_ns
    FROM device_events AS d
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    WHERE a.step IS NOT NULL
    GROUP BY trace_id, d.device, a.step
),

-- Work outside steps: launched before the first step or between two steps.
outside AS (
    SELECT
        trace_id, d.device, d.ts_ns, d.wall_ns,
        a.phase = 'evaluation' AS is_evaluation,
        greatest(
            latest_end_before_ns((trace_id, d.device), d.ts_ns, d.end_ns, event_id), d.end_ns
        ) AS end_ns
    FROM device_events AS d
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    WHERE a.step IS NULL AND trace_id IN (SELECT trace_id FROM step_ranges)
),

evaluation AS (SELECT trace_id, device, ts_ns FROM outside WHERE is_evaluation),

marked AS (
    SELECT trace_id, step, min(ts_ns) AS ts_ns, max(end_ns) AS end_ns
    FROM step_ranges
    GROUP BY trace_id, step
),

stepped AS (SELECT DISTINCT trace_id, device FROM work),

-- Steps without recorded work still delimit the adjacent steps.
begun AS (
    SELECT
        m.trace_id, d.device, m.step, m.end_ns, w.first_ns, w.last_ns,
        greatest(
            o.end_ns,
            latest_end_before_ns((m.trace_id, d.device), m.ts_ns, w.last_ns, m.step)
        ) AS free_ns,
        least(greatest(m.ts_ns, free_ns), coalesce(w.first_ns, m.ts_ns)) AS start_ns
    FROM marked AS m
    INNER JOIN stepped AS d USING (trace_id)
    LEFT JOIN work AS w USING (trace_id, device, step)
    ASOF LEFT JOIN outside AS o
        ON m.trace_id = o.trace_id AND d.device = o.device AND w.first_ns > o.ts_ns
),

followed AS (
    SELECT *, next_start_ns((trace_id, device), start_ns, step) AS next_ns
    FROM begun
),

ended AS (
    SELECT
        *,
        start_ns + max(next_ns - start_ns) OVER (PARTITION BY trace_id, device) AS latest_ns
    FROM followed
),

spanned AS (
    SELECT
        s.trace_id, s.device, s.step, s.start_ns,
        greatest(
            least(
                coalesce(
                    s.next_ns,
                    greatest(s.last_ns, least(s.end_ns, coalesce(s.latest_ns, s.last_ns)))
                ),
                e.ts_ns
            ) - s.start_ns,
            0
        ) AS span_ns,
        s.last_ns - s.first_ns AS work_ns
    FROM ended AS s
    ASOF LEFT JOIN evaluation AS e
        ON s.trace_id = e.trace_id AND s.device = e.device AND s.last_ns <= e.ts_ns
    WHERE s.last_ns IS NOT NULL
),

other AS (
    SELECT s.trace_id, s.device, s.step, sum(o.wall_ns)::BIGINT AS wall_ns
    FROM outside AS o
    ASOF INNER JOIN spanned AS s
        ON o.trace_id = s.trace_id AND o.device = s.device AND o.ts_ns >= s.start_ns
    WHERE o.ts_ns < s.start_ns + s.span_ns
    GROUP BY s.trace_id, s.device, s.step
)

SELECT s.*, coalesce(o.wall_ns, 0) AS other_ns
FROM spanned AS s
LEFT JOIN other AS o USING (trace_id, device, step)
