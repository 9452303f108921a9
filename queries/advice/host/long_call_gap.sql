-- GPU idle gaps of at least 1 ms in which one op runs unusually long on the CPU.
-- The op is open during at least 80 % of the gap. It takes at least five times the median duration of its calls, or is
-- called only once.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, gap_id BIGINT, step BIGINT, op VARCHAR, idle_ns BIGINT, median_ns BIGINT

WITH gap AS (
    SELECT
        trace_id, gap_id, pid, coalesce(busy_tid, tid) AS tid,
        any_value(device) AS device,
        arg_max(step, idle_ns) AS step,
        min(start_ns) AS start_ns, max(end_ns) AS end_ns,
        sum(idle_ns)::BIGINT AS idle_ns
    FROM idle_gap
    WHERE cause = 'host_bound' AND device <> 'cpu'
    GROUP BY ALL
    HAVING sum(idle_ns) >= 1_000_000
),

op AS (
    SELECT
        trace_id, event_id, pid, tid, name, ts_ns, ts_ns + dur_ns AS end_ns, dur_ns,
        median(dur_ns) OVER (PARTITION BY trace_id, name) AS median_ns,
        count(*) OVER (PARTITION BY trace_id, name) AS call_count
    FROM event
    WHERE is_op(category) AND EXISTS (FROM gap)
),

long_op AS (
    SELECT
        (trace_id, pid, tid, d.device) AS part, (trace_id, o.event_id) AS id,
        o.ts_ns AS start_ns, o.end_ns
    FROM op AS o
    INNER JOIN (SELECT DISTINCT trace_id, pid, tid, device FROM gap) AS d
        USING (trace_id, pid, tid)
    WHERE
        o.dur_ns >= 800_000
        AND (o.call_count = 1 OR o.dur_ns >= 5 * o.median_ns)
        AND NOT starts_with(o.name, 'ProfilerStep#')
),

-- Gaps are disjoint only within a device, so the device is part of the key.
span AS (
    SELECT (trace_id, pid, tid, device) AS part, (trace_id, gap_id) AS id, start_ns, end_ns
    FROM gap
)

SELECT
    g.trace_id, g.gap_id,
    any_value(g.step) AS step,
    arg_min(o.name, o.dur_ns) AS op,
    any_value(g.idle_ns) AS idle_ns,
    arg_min(o.median_ns, o.dur_ns)::BIGINT AS median_ns
FROM interval_crossings('long_op', 'span') AS c
INNER JOIN op AS o ON c.left_id = (o.trace_id, o.event_id)
INNER JOIN gap AS g ON c.right_id = (g.trace_id, g.gap_id)
WHERE least(o.end_ns, g.end_ns) - greatest(o.ts_ns, g.start_ns) >= 0.8 * g.idle_ns
GROUP BY g.trace_id, g.gap_id
ORDER BY g.trace_id, g.gap_id
