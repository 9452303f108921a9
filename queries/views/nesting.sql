-- Inside of which other event does each event of the CPU lie, and how deep?
-- Ops, Python calls, ranges and runtime calls of a thread. The parent is the one that began last of those that are
-- open when an event begins; of equal starts the longer is outside. Nothing is dropped where events cross: a child
-- may end after its parent. Costs a sort, and a row for each event that is open when another begins.
--
-- Kind:     view
-- Requires: event_category
-- Columns:
--   trace_id   INTEGER  the trace
--   event_id   BIGINT   the event
--   parent_id  BIGINT   the innermost event that is open when it begins; NULL outside of all
--   depth      BIGINT   how many are open then, 0 outside of all
-- Invariant: depth >= 0 AND (parent_id IS NULL) = (depth = 0)

WITH numbered AS (
    SELECT
        trace_id,
        pid,
        tid,
        event_id,
        ts_ns,
        ts_ns + dur_ns AS end_ns,
        row_number() OVER (
            PARTITION BY trace_id, pid, tid
            ORDER BY
                ts_ns, dur_ns DESC,
                CASE
                    WHEN is_python_call(category) THEN 0
                    WHEN is_annotation(category) THEN 1
                    WHEN is_op(category) THEN 2
                    ELSE 3
                END,
                event_id
        ) AS position
    FROM event
    WHERE
        is_python_call(category)
        OR is_annotation(category)
        OR is_op(category)
        OR is_launch_call(category)
),

begun AS (
    SELECT
        trace_id,
        pid,
        tid,
        ts_ns,
        max(position) AS position
    FROM numbered
    GROUP BY trace_id, pid, tid, ts_ns
),

-- While an event is open, those from the next position to the last one before its end begin.
opened AS (
    SELECT
        outside.trace_id,
        outside.pid,
        outside.tid,
        outside.position AS outside_position,
        unnest(range(outside.position + 1, last_inside.position + 1)) AS position
    FROM numbered AS outside
    ASOF INNER JOIN begun AS last_inside
        ON
            outside.trace_id = last_inside.trace_id
            AND outside.pid = last_inside.pid
            AND outside.tid = last_inside.tid
            AND outside.end_ns > last_inside.ts_ns
),

surrounded AS (
    SELECT
        trace_id,
        pid,
        tid,
        position,
        max(outside_position) AS parent_position,
        count(*) AS depth
    FROM opened
    GROUP BY trace_id, pid, tid, position
)

SELECT
    inside.trace_id,
    inside.event_id,
    parent.event_id AS parent_id,
    coalesce(surrounded.depth, 0) AS depth
FROM numbered AS inside
LEFT JOIN surrounded
    ON
        inside.trace_id = surrounded.trace_id
        AND inside.pid = surrounded.pid
        AND inside.tid = surrounded.tid
        AND inside.position = surrounded.position
LEFT JOIN numbered AS parent
    ON
        surrounded.trace_id = parent.trace_id
        AND surrounded.pid = parent.pid
        AND surrounded.tid = parent.tid
        AND surrounded.parent_position = parent.position
