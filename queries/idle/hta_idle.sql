-- Idle time per stream as HolisticTraceAnalysis reports it, for comparison.
-- As in HTA's get_idle_time_breakdown, a stream counts as idle even while another stream works, and overlaps within a
-- stream count as negative gaps. `idle_causes` does neither. host_wait: the work was launched after the previous event
-- ended. kernel_wait: another gap shorter than kernel_delay_ns. other: a longer gap.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   kernel_delay_ns  BIGINT = 30000  gaps shorter than this are kernel_wait, ns
-- Columns:
--   rank       INTEGER
--   device     VARCHAR  device number
--   stream     BIGINT
--   category   VARCHAR  host_wait, kernel_wait, or other
--   gap_count  BIGINT   number of device events after a gap of this category, including zero-length gaps
--   idle_ns    BIGINT   sum of the gaps, ns; negative if overlaps outweigh them
--   idle_pct   DOUBLE   share of the stream's total idle time, percent
-- Invariant: category IN ('host_wait', 'kernel_wait', 'other') AND gap_count > 0

WITH follower AS (
    SELECT
        e.trace_id, e.device, e.stream, e.ts_ns, l.ts_ns AS launch_ts_ns,
        previous_end_ns(
            (e.trace_id, e.device, e.stream), e.ts_ns, e.end_ns, e.event_id
        ) AS previous_end_ns
    FROM attributed_events AS e
    LEFT JOIN launch AS l USING (trace_id, launch_id)
    WHERE e.device <> 'cpu'
),

judged AS (
    SELECT
        trace_id, device, stream,
        ts_ns - previous_end_ns AS idle_ns,
        CASE
            WHEN launch_ts_ns > previous_end_ns THEN 'host_wait'
            WHEN ts_ns - previous_end_ns < $kernel_delay_ns THEN 'kernel_wait'
            ELSE 'other'
        END AS category
    FROM follower
    WHERE previous_end_ns IS NOT NULL
),

summed AS (
    SELECT
        trace_id, device, stream, category,
        count(*) AS gap_count,
        sum(idle_ns)::BIGINT AS idle_ns
    FROM judged
    GROUP BY trace_id, device, stream, category
)

SELECT
    t.rank, s.device, s.stream, s.category, s.gap_count, s.idle_ns,
    100.0 * s.idle_ns / nullif(
        sum(s.idle_ns) OVER (PARTITION BY s.trace_id, s.device, s.stream), 0
    )::BIGINT AS idle_pct
FROM summed AS s
INNER JOIN trace AS t USING (trace_id)
ORDER BY t.rank NULLS LAST, t.trace_id, s.device, s.stream, s.category
