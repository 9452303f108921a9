-- Host spans with their parent, self time, and launched GPU work.
-- Per thread, host_ns adds up to the time with an open span. wall_ns adds up to the busy time of the devices. Work
-- without a recorded launch has a row without a span.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, pid BIGINT, tid BIGINT -> thread(pid, tid)
--   place    BIGINT   as in host_spans
--   event_id BIGINT -> event, parent_id BIGINT -> event.event_id, name VARCHAR
--   kernel   VARCHAR  name of the launched device event; NULL in the row of the span itself
--   host_ns  BIGINT   self time of the span, ns
--   wall_ns  BIGINT
-- Invariant: host_ns >= 0 AND wall_ns >= 0

WITH span AS (
    SELECT (trace_id, pid, tid) AS part, place AS id, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
    FROM host_spans
    WHERE dur_ns > 0
),

own AS (
    SELECT id AS place, sum(end_ns - start_ns)::BIGINT AS host_ns
    FROM interval_self('span')
    GROUP BY ALL
),

launched AS (
    SELECT
        trace_id, launch_id AS event_id,
        -- In a CPU trace, an op is its own launch.
        if(launch_id = event_id, NULL, name) AS kernel,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM attributed_events
    GROUP BY ALL
)

SELECT
    s.trace_id, s.pid, s.tid, s.place, s.event_id, n.parent_id, s.name, NULL::VARCHAR AS kernel,
    coalesce(o.host_ns, 0) AS host_ns,
    0 AS wall_ns
FROM host_spans AS s
INNER JOIN nesting AS n USING (trace_id, event_id)
LEFT JOIN own AS o USING (place)
UNION ALL
SELECT
    l.trace_id, s.pid, s.tid, s.place, l.event_id, NULL AS parent_id, s.name, l.kernel,
    0 AS host_ns,
    l.wall_ns
FROM launched AS l
LEFT JOIN host_spans AS s USING (trace_id, event_id)
