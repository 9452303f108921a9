-- Device events launched inside torch.compile regions.
-- Each event belongs to the innermost region that is open on the launching thread.
--
-- Kind:     table
-- Input:    compiled_regions
-- Columns:
--   trace_id   INTEGER -> trace
--   event_id   BIGINT -> device_events.event_id  device event
--   piece      BIGINT
--   region_id  BIGINT -> compiled_regions        region
--   pass       VARCHAR                           forward or backward
--   graph      VARCHAR                           graph number; NULL if unknown

WITH region AS (
    SELECT trace_id || '/' || pid || '/' || tid AS part, region_id AS id, start_ns, end_ns
    FROM compiled_regions
),

called AS MATERIALIZED (
    SELECT
        trace_id || '/' || pid || '/' || tid AS part,
        row_number() OVER () AS id,
        trace_id, launch_id, ts_ns AS at_ns
    FROM launch
    WHERE trace_id IN (SELECT trace_id FROM compiled_regions)
)

SELECT c.trace_id, c.event_id, c.piece, r.region_id, r.pass, r.graph
FROM interval_innermost('called', 'region') AS inside
INNER JOIN called USING (id)
INNER JOIN compiled_regions AS r
    ON called.trace_id = r.trace_id AND inside.span_id = r.region_id
INNER JOIN attribution AS c
    ON called.trace_id = c.trace_id AND called.launch_id = c.launch_id
