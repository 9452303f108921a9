-- Inside of which other event does each event of the CPU lie, and how deep?
-- Ops, Python calls, ranges and runtime calls of a thread. The parent is the one that began last of those that are
-- open when an event begins; of equal starts the longer is outside. Nothing is dropped where events cross: a child
-- may end after its parent. Costs a sort, however deep the events nest.
--
-- Kind:     table
-- Made:     when asked for
-- Columns:
--   trace_id   INTEGER -> trace          the trace
--   event_id   BIGINT -> event           the event
--   parent_id  BIGINT -> event.event_id  the innermost event that is open when it begins; NULL outside of all
--   depth      BIGINT                    how many are open then, 0 outside of all
-- Invariant: depth >= 0 AND (parent_id IS NULL) = (depth = 0)

WITH numbered AS (
    SELECT
        trace_id, pid, tid, event_id,
        trace_id || '/' || pid || '/' || tid AS part,
        ts_ns,
        ts_ns + dur_ns AS end_ns,
        place AS position
    FROM host_spans
),

begun AS (
    SELECT part, ts_ns, max(position) AS position
    FROM numbered
    GROUP BY part, ts_ns
),

-- While an event is open, those from the next position to the last one before its end begin: intervals of positions,
-- which take the place of times.
opened AS (
    SELECT
        outside.part, outside.position AS id,
        outside.position + 1 AS start_ns,
        last_inside.position + 1 AS end_ns
    FROM numbered AS outside
    ASOF INNER JOIN begun AS last_inside
        ON outside.part = last_inside.part AND outside.end_ns > last_inside.ts_ns
    WHERE last_inside.position > outside.position
),

moment AS (
    SELECT part, position AS id, position AS at_ns
    FROM numbered
),

surrounding AS (SELECT * FROM interval_innermost('moment', 'opened')),

-- How many are open from a position on.
depth_from AS (
    SELECT part, at_ns AS position, at_ns + dur_ns AS behind_position, depth
    FROM interval_depth('opened')
    WHERE dur_ns > 0
)

SELECT
    inside.trace_id, inside.event_id, parent.event_id AS parent_id,
    CASE WHEN inside.position < d.behind_position THEN d.depth ELSE 0 END AS depth
FROM numbered AS inside
ASOF LEFT JOIN depth_from AS d
    ON inside.part = d.part AND inside.position >= d.position
LEFT JOIN surrounding ON inside.position = surrounding.id
LEFT JOIN numbered AS parent ON surrounding.span_id = parent.position
