-- Attributes of each edge of the dependency graph, used to select edges for a change.
-- The attributes describe the target of the edge: a device event, a launch call with its work, or the host time before
-- the target.
--
-- Kind:     table
-- Created:  on demand
-- Columns:
--   edge_id    BIGINT -> graph_edge  edge
--   part       VARCHAR               type of time: work, call, host, latency, gap, wait, start, or mark
--   span_id    BIGINT                target span; NULL for the arrival of the last rank
--   class      VARCHAR
--   work_kind  VARCHAR               compute, comm, or memcpy
--   op         VARCHAR               innermost op around the call or around the launch of the work
--   module     VARCHAR
--   name       VARCHAR               name of the device event or call
--   phase VARCHAR, step BIGINT, rank INTEGER, device VARCHAR, stream BIGINT
--   pg_name    VARCHAR               process group of a collective
--   op_ns      BIGINT                host time inside ops, ns

WITH other_call AS (
    SELECT
        s.span_id AS id, s.trace_id, s.event_id,
        (e.trace_id, e.pid, e.tid) AS part,
        e.ts_ns AS at_ns
    FROM graph_span AS s
    INNER JOIN event AS e USING (trace_id, event_id)
    ANTI JOIN span_fact AS f ON s.span_id = f.span_id
    WHERE s.kind = 'call'
),

op_span AS (
    SELECT
        (e.trace_id, e.pid, e.tid) AS part,
        e.event_id AS id, e.ts_ns AS start_ns, e.ts_ns + e.dur_ns AS end_ns
    FROM event AS e
    WHERE is_op(e.category) AND contains(e.name, '::')
),

other_op AS (
    SELECT c.id, e.name AS op
    FROM interval_innermost('other_call', 'op_span') AS i
    INNER JOIN other_call AS c USING (id)
    INNER JOIN event AS e ON c.trace_id = e.trace_id AND i.span_id = e.event_id
),

fact AS (
    SELECT
        s.span_id, s.device, s.stream, s.name, f.class, f.work_kind, f.module, f.phase, c.pg_name,
        coalesce(f.op, o.op) AS op,
        coalesce(f.step, s.step) AS step
    FROM graph_span AS s
    LEFT JOIN span_fact AS f USING (span_id)
    LEFT JOIN other_op AS o ON s.span_id = o.id
    LEFT JOIN collective_events AS c
        ON
            s.trace_id = c.trace_id
            AND s.event_id = c.event_id
            AND s.piece = c.piece
            AND s.kind = 'work'
),

step_range AS (
    SELECT r.trace_id, r.step, r.ts_ns + c.shift_ns AS start_ns, r.end_ns + c.shift_ns AS end_ns
    FROM step_ranges AS r
    INNER JOIN graph_clock AS c USING (trace_id)
),

part AS (
    SELECT
        e.edge_id, e.trace_id, e.source_ns, e.target_ns,
        if(r.end_ns > e.source_ns, r.step, NULL) AS step,
        if(e.target_node > 0, e.target_node // 2, NULL) AS span_id,
        CASE
            WHEN e.kind IN ('work', 'transfer') THEN 'work'
            WHEN e.kind IN ('launch', 'posted') THEN 'latency'
            WHEN e.kind IN ('stream', 'event', 'concurrent', 'worker') THEN 'gap'
            WHEN e.kind IN ('copy', 'sync', 'implicit_sync', 'queue', 'batch') THEN 'wait'
            WHEN e.kind IN ('start', 'backlog') THEN 'start'
            WHEN e.kind IN ('mark', 'meeting') THEN 'mark'
            WHEN e.kind = 'call' THEN 'call'
            ELSE 'host'
        END AS part
    FROM graph_edge AS e
    ASOF LEFT JOIN step_range AS r ON e.trace_id = r.trace_id AND e.source_ns >= r.start_ns
),

host_time AS MATERIALIZED (
    SELECT
        (p.trace_id, s.pid, s.tid) AS part,
        p.edge_id AS id, p.source_ns AS start_ns, p.target_ns AS end_ns
    FROM part AS p
    INNER JOIN graph_span AS s USING (span_id)
    WHERE p.part = 'host' AND s.tid IS NOT NULL AND p.source_ns < p.target_ns
),

op AS (
    SELECT
        (e.trace_id, e.pid, e.tid) AS part,
        e.ts_ns + c.shift_ns AS start_ns,
        e.ts_ns + e.dur_ns + c.shift_ns AS end_ns
    FROM event AS e
    INNER JOIN graph_clock AS c USING (trace_id)
    -- Host time in autograd nodes or ranges but outside ops is Python or engine time, not op time.
    WHERE
        is_op(e.category)
        AND e.dur_ns > 0
        AND contains(e.name, '::')
        AND NOT regexp_matches(e.name, '^(torch::)?autograd::')
)

SELECT
    p.edge_id, p.part, p.span_id, f.class, f.work_kind, f.op, f.module, f.name, f.phase,
    coalesce(f.step, p.step) AS step,
    t.rank, f.device, f.stream, f.pg_name,
    coalesce(o.overlap_ns, 0) AS op_ns
FROM part AS p
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN fact AS f USING (span_id)
LEFT JOIN interval_overlap('host_time', 'op') AS o ON p.edge_id = o.id
ORDER BY p.edge_id
