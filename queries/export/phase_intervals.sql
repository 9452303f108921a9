-- When was each device in which phase?
-- phase_intervals('walls') tiles the window of each device. Idle time goes to the phase of the device event that ends
-- it, as in analysis phases: the lengths of a phase add up to its wall_ns and idle_ns there.
--
-- Kind:     macro
-- Requires: attributed_events, interval_neighbours
-- Params:
--   walls  VARCHAR  name of a relation with the rows of wall_intervals()
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, or cpu
--   phase     VARCHAR  the phase
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns
--   wall_ns   BIGINT   of its length, the time in which the device was busy, ns

CREATE OR REPLACE MACRO phase_intervals(walls) AS TABLE (
    WITH placed AS (
        SELECT
            trace_id,
            device,
            event_id,
            piece,
            phase,
            ts_ns,
            gap_before_ns((trace_id, device), ts_ns, end_ns, (event_id, piece)) AS gap_ns
        FROM attributed_events
    ),

    tile AS (
        SELECT
            w.trace_id,
            w.device,
            p.phase,
            w.start_ns,
            w.end_ns,
            w.end_ns - w.start_ns AS wall_ns
        FROM query_table(walls) AS w
        INNER JOIN placed AS p
            ON w.trace_id = p.trace_id AND w.event_id = p.event_id AND w.piece = p.piece
        UNION ALL
        SELECT
            trace_id,
            device,
            phase,
            ts_ns - gap_ns AS start_ns,
            ts_ns AS end_ns,
            0 AS wall_ns
        FROM placed
        WHERE gap_ns > 0
    ),

    changed AS (
        SELECT
            *,
            lag(phase) OVER tiles AS before
        FROM tile
        WINDOW tiles AS (PARTITION BY trace_id, device ORDER BY start_ns)
    ),

    numbered AS (
        SELECT
            *,
            count(if(before IS DISTINCT FROM phase, 1, NULL)) OVER (
                PARTITION BY trace_id, device ORDER BY start_ns ROWS UNBOUNDED PRECEDING
            ) AS run
        FROM changed
    )

    SELECT
        trace_id,
        device,
        any_value(phase) AS phase,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM numbered
    GROUP BY trace_id, device, run
);
