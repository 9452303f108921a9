-- Edges of the dependency graph, from cause to effect.
-- Each node is the start or end of a span (`graph_span`), and each span is an edge. The weight is the minimum time
-- between the two nodes. For work and the host's own time, it is the recorded time. For latencies and stream gaps, it
-- is the typical time in the trace, but at most the recorded time. The edge with the latest arrival time at a node is
-- binding; its rest is the unexplained time from that arrival to the node.
--
-- Kind:     table
-- Created:  on demand
-- Columns:
--   edge_id      BIGINT   edge number, from 0
--   trace_id     INTEGER  trace of the target
--   source_node  BIGINT   cause: 2 × span_id, plus 1 for the end of the span; negative: arrival of the last rank at a collective; 0: common origin
--   target_node  BIGINT   effect, numbered like source_node
--   kind         VARCHAR  kind of dependency
--   known_by     VARCHAR
--   source_ns    BIGINT   recorded time of the source, ns
--   target_ns    BIGINT   recorded time of the target, ns
--   weight_ns    BIGINT   minimum time between source and target, ns
--   quick_ns     BIGINT   weight with the 10th percentile of latencies, ns
--   slow_ns      BIGINT   weight with the 90th percentile of latencies, ns
--   loading_ns   BIGINT   part of the weight inside a data loader, ns
--   is_binding   BOOLEAN  the edge has the latest arrival time of all edges into its target
--   rest_ns      BIGINT   unexplained time before target_ns, ns; 0 unless binding

WITH edge AS (
    FROM graph_host_edge
    UNION ALL BY NAME
    FROM graph_work_edge
    UNION ALL BY NAME
    FROM graph_wait_edge
    UNION ALL BY NAME
    FROM graph_meeting_edge
),

-- A task on a backend thread starts when it is posted, not at the end of the previous span.
recorded_edge AS (
    SELECT *
    FROM edge
    WHERE
        kind IN ('posted', 'worker')
        OR target_node NOT IN (SELECT target_node FROM graph_meeting_edge WHERE kind = 'posted')
),

every_edge AS (
    SELECT * FROM recorded_edge
    UNION ALL BY NAME
    -- A matched collective starts to transfer when its last rank arrives, not at its own start.
    SELECT
        s.trace_id,
        s.span_id * 2 AS source_node,
        s.span_id * 2 + 1 AS target_node,
        s.kind,
        'recorded' AS known_by,
        s.start_ns AS source_ns,
        s.end_ns AS target_ns,
        if(m.source_node IS NULL, s.end_ns - s.start_ns, 0) AS weight_ns
    FROM graph_span AS s
    LEFT JOIN graph_meeting_edge AS m ON s.span_id * 2 = m.source_node AND m.kind = 'meeting'
    WHERE s.kind <> 'call'
    UNION ALL BY NAME
    -- A span without a known cause starts at its recorded time, relative to the first span.
    SELECT
        s.trace_id,
        0 AS source_node,
        s.span_id * 2 AS target_node,
        'start' AS kind,
        'assumed' AS known_by,
        o.start_ns AS source_ns,
        s.start_ns AS target_ns,
        s.start_ns - o.start_ns AS weight_ns
    FROM graph_span AS s
    CROSS JOIN (SELECT min(start_ns) AS start_ns FROM graph_span) AS o
    ANTI JOIN recorded_edge AS k ON s.span_id * 2 = k.target_node
),

sorted AS (
    SELECT *
    FROM every_edge
    ORDER BY target_node, source_node, kind, known_by, weight_ns
),

numbered AS MATERIALIZED (
    SELECT
        row_number() OVER () - 1 AS edge_id,
        *,
        (target_ns - source_ns - weight_ns)::HUGEINT AS left_ns
    FROM sorted
),

-- If several edges arrive at the same time, the edge with the lowest edge_id is binding.
binding AS (
    SELECT arg_min(edge_id, left_ns * (1::HUGEINT << 40) + edge_id) AS edge_id
    FROM numbered
    GROUP BY target_node
)

SELECT
    n.edge_id, n.trace_id, n.source_node, n.target_node, n.kind, n.known_by, n.source_ns,
    n.target_ns, n.weight_ns,
    coalesce(n.quick_ns, n.weight_ns) AS quick_ns,
    coalesce(n.slow_ns, n.weight_ns) AS slow_ns,
    coalesce(n.loading_ns, 0) AS loading_ns,
    b.edge_id IS NOT NULL AS is_binding,
    if(is_binding, n.target_ns - n.source_ns - n.weight_ns, 0) AS rest_ns
FROM numbered AS n
LEFT JOIN binding AS b USING (edge_id)
ORDER BY n.edge_id
