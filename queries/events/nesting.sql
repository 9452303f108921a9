-- Parent and depth of each host span.
-- The parent is the innermost span that is open when a span starts. If two spans start together, the longer one is the
-- parent. Overlapping spans that do not nest are not shortened, so a child may end after its parent.
--
-- Kind:     table
-- Created:  on demand
-- Columns:
--   trace_id   INTEGER -> trace
--   event_id   BIGINT -> event           span
--   parent_id  BIGINT -> event.event_id  innermost span open at its start; NULL at the top
--   depth      BIGINT                    number of other spans open at its start; 0 at the top
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

-- The spans that start while a span is open have consecutive positions, so compare positions
-- instead of times.
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

time_point AS (
    SELECT part, position AS id, position AS at_ns
    FROM numbered
),

surrounding AS (SELECT * FROM interval_innermost('time_point', 'opened')),

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
