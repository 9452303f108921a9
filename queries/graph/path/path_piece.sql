-- Segments of the critical path of each trace, clipped to its device window.
-- Host time is split where the innermost op or data loader changes. Time outside both is Python or unrecorded. Segments
-- are contiguous and add up to the window. Host time has the phase and module of the work that it leads to.
--
-- Kind:     table
-- Created:  on demand
-- Columns:
--   trace_id     INTEGER -> trace           trace at whose last device event the path ends
--   position     BIGINT                     position on the path, from 1
--   kind         VARCHAR                    kind of the edge (work, transfer, host, loading, call, launch, stream, event, sync, …), or unexplained
--   known_by     VARCHAR
--   of_trace_id  INTEGER -> trace.trace_id  trace in which the segment ran
--   event_id     BIGINT -> event            device event, call, or op; NULL for Python and unrecorded time
--   name         VARCHAR
--   op_id        BIGINT -> record.event_id  op that launched the work
--   phase VARCHAR, module_path VARCHAR
--   class        VARCHAR                    kernel class; NULL for host time
--   start_ns     BIGINT                     start on the common clock, ns
--   end_ns       BIGINT                     end on the common clock, ns
-- Invariant: start_ns < end_ns

WITH host_part AS MATERIALIZED (
    SELECT
        p.part_id, p.start_ns, p.end_ns, (p.of_trace_id, s.pid, s.tid) AS thread,
        dense_rank() OVER (ORDER BY p.trace_id, thread) AS part
    FROM path_part AS p
    INNER JOIN graph_span AS s ON p.span_id = s.span_id
    WHERE p.kind IN ('host', 'thread', 'spawn') AND p.start_ns < p.end_ns AND s.tid IS NOT NULL
),

path_thread AS (SELECT DISTINCT thread, part FROM host_part),

host_op AS (
    SELECT
        (e.trace_id, e.pid, e.tid) AS thread, e.event_id AS id,
        e.ts_ns + c.shift_ns AS start_ns,
        e.ts_ns + e.dur_ns + c.shift_ns AS end_ns
    FROM event AS e
    INNER JOIN graph_clock AS c USING (trace_id)
    WHERE is_op(e.category) AND e.dur_ns > 0
    UNION ALL BY NAME
    SELECT
        (w.trace_id, w.pid, w.tid) AS thread, w.event_id AS id,
        w.ts_ns + c.shift_ns AS start_ns,
        w.ts_ns + w.dur_ns + c.shift_ns AS end_ns
    FROM host_waits AS w
    INNER JOIN graph_clock AS c USING (trace_id)
    INNER JOIN event AS e USING (trace_id, event_id)
    WHERE w.kind = 'data_loading' AND NOT is_op(e.category)
),

path_op AS MATERIALIZED (SELECT * FROM host_op INNER JOIN path_thread USING (thread)),

op_border AS (SELECT part, unnest([start_ns, end_ns]) AS at_ns FROM path_op),

-- Times at which the innermost op may change.
time_point AS MATERIALIZED (
    SELECT part_id, part, at_ns, row_number() OVER () AS id
    FROM (
        SELECT part_id, part, start_ns AS at_ns
        FROM host_part
        UNION
        SELECT h.part_id, h.part, b.at_ns
        FROM op_border AS b
        ASOF INNER JOIN host_part AS h ON b.part = h.part AND b.at_ns > h.start_ns
        WHERE b.at_ns < h.end_ns
    ) AS border
),

entered AS (
    SELECT m.part_id, m.at_ns, i.span_id AS event_id
    FROM time_point AS m
    LEFT JOIN interval_innermost('time_point', 'path_op') AS i USING (id)
    WINDOW part AS (PARTITION BY m.part_id ORDER BY m.at_ns)
    QUALIFY row_number() OVER part = 1 OR i.span_id IS DISTINCT FROM lag(i.span_id) OVER part
),

own AS (
    SELECT
        e.part_id, e.event_id,
        e.at_ns AS start_ns,
        least(next_start_ns(e.part_id, e.at_ns, e.at_ns), h.end_ns) AS end_ns
    FROM entered AS e
    INNER JOIN host_part AS h USING (part_id)
),

loading AS (
    SELECT DISTINCT trace_id, event_id
    FROM host_waits
    WHERE kind = 'data_loading'
),

piece AS (
    SELECT
        p.trace_id, p.place, p.of_trace_id, p.known_by, p.span_id, p.part_id,
        if(l.event_id IS NULL, p.kind, 'loading') AS kind,
        o.event_id, o.start_ns, o.end_ns
    FROM own AS o
    INNER JOIN path_part AS p USING (part_id)
    LEFT JOIN loading AS l ON p.of_trace_id = l.trace_id AND o.event_id = l.event_id
    UNION ALL BY NAME
    SELECT
        p.trace_id, p.place, p.of_trace_id, p.known_by, p.span_id, p.part_id, p.kind,
        if(p.kind IN ('start', 'mark'), NULL, s.event_id) AS event_id,
        p.start_ns, p.end_ns
    FROM path_part AS p
    LEFT JOIN graph_span AS s ON p.span_id = s.span_id
    ANTI JOIN host_part AS h ON p.part_id = h.part_id
),

described AS (
    SELECT
        p.*, e.name,
        if(p.kind IN ('work', 'transfer'), f.class, NULL) AS class,
        f.op_id,
        f.phase AS own_phase,
        f.module AS own_module
    FROM piece AS p
    LEFT JOIN event AS e ON p.of_trace_id = e.trace_id AND p.event_id = e.event_id
    LEFT JOIN span_fact AS f ON p.span_id = f.span_id
    WHERE p.start_ns < p.end_ns
)

SELECT
    trace_id,
    row_number() OVER path AS position,
    kind, known_by, of_trace_id, event_id, name, op_id,
    any_value(own_phase) OVER onward AS phase,
    any_value(own_module) OVER onward AS module_path,
    class, start_ns, end_ns
FROM described
WINDOW
    path AS (PARTITION BY trace_id ORDER BY start_ns, place DESC, part_id),
    onward AS (
        PARTITION BY trace_id ORDER BY start_ns, place DESC, part_id
        ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    )
ORDER BY trace_id, position
