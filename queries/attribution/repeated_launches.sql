-- GPU events without a recorded launch, each matched to an event with a launch.
-- A section of a stream without launches is matched with a section that has launches and the same kernels in the same
-- order. Streams with too few distinct kernels (communication) are matched by position with events one to three steps
-- later, if at least 90 % of the names agree. Events without a match have no row.
--
-- Kind:     table
-- Input:    launch_link WHERE launch_id IS NULL
-- Columns:
--   trace_id       INTEGER -> trace
--   event_id       BIGINT -> event           device event
--   like_event_id  BIGINT -> event.event_id  matching device event with a launch

WITH numbered AS (
    SELECT
        d.trace_id, d.event_id, d.device, d.stream, d.name, k.launch_id, k.step_ts_ns,
        row_number() OVER (
            PARTITION BY d.trace_id, d.device, d.stream ORDER BY d.ts_ns, d.event_id
        ) AS position
    FROM device_events AS d
    INNER JOIN launch_link AS k USING (trace_id, event_id, piece)
    WHERE d.trace_id IN (SELECT trace_id FROM launch_link WHERE launch_id IS NULL)
),

-- Events without a match by kernel order.
unaligned AS (
    SELECT n.*
    FROM numbered AS n
    ANTI JOIN scratch.aligned AS a USING (trace_id, event_id)
    WHERE n.launch_id IS NULL
),

step_length AS (
    SELECT
        trace_id, device, stream,
        lead(min(position)) OVER (
            PARTITION BY trace_id, device, stream ORDER BY min(position)
        ) - min(position) AS length
    FROM numbered
    WHERE step_ts_ns IS NOT NULL
    GROUP BY trace_id, device, stream, step_ts_ns
),

period AS (
    SELECT trace_id, device, stream, min(length) AS period
    FROM step_length
    WHERE length > 0
    GROUP BY trace_id, device, stream
),

-- Materialized so that the join below uses only the position.
expected AS MATERIALIZED (
    SELECT
        u.trace_id, u.event_id, u.device, u.stream, u.name, ahead.steps,
        u.position + ahead.steps * p.period AS position
    FROM unaligned AS u
    INNER JOIN period AS p
        ON
            u.trace_id = p.trace_id
            AND u.device = p.device
            AND u.stream IS NOT DISTINCT FROM p.stream
    CROSS JOIN (VALUES (1), (2), (3)) AS ahead (steps)
),

repeated AS (
    SELECT a.trace_id, a.event_id, a.device, a.stream, k.event_id AS like_event_id
    FROM expected AS a
    INNER JOIN numbered AS k
        ON
            a.trace_id = k.trace_id
            AND a.device = k.device
            AND a.stream IS NOT DISTINCT FROM k.stream
            AND a.position = k.position
            AND a.name = k.name
            AND k.launch_id IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY a.trace_id, a.event_id ORDER BY a.steps) = 1
),

trusted AS (
    SELECT u.trace_id, u.device, u.stream
    FROM unaligned AS u
    LEFT JOIN repeated AS r USING (trace_id, event_id)
    GROUP BY u.trace_id, u.device, u.stream
    HAVING count(r.event_id) >= 0.9 * count(*)
)

SELECT trace_id, event_id, like_event_id
FROM scratch.aligned
UNION ALL
SELECT r.trace_id, r.event_id, r.like_event_id
FROM repeated AS r
INNER JOIN trusted AS t
    ON
        r.trace_id = t.trace_id
        AND r.device = t.device
        AND r.stream IS NOT DISTINCT FROM t.stream
ORDER BY trace_id, event_id
