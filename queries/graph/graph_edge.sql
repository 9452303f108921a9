-- Who waited for whom: what are the edges of the dependency graph?
-- From what is waited for to what waits; a node is the start or the end of a span (graph_span), and a span's time is an edge
-- as well. The weight is what lies between them at least: recorded where it is work or the host's own, usual where the
-- trace has many of the kind (latency, gaps of a stream), never more than was recorded. Of all edges into a node
-- the one that ends last binds; what is left up to the recorded moment is its rest.
--
-- Kind:     table
-- Made:     when asked for
-- Columns:
--   edge_id      BIGINT   number of the edge, from 0
--   trace_id     INTEGER  the trace; of what waits
--   source_node  BIGINT   the node that is waited for: twice the number of its span, 1 more for its end; negative: a meeting of ranks; 0: the start of all
--   target_node  BIGINT   the node that waits
--   kind         VARCHAR  what makes the one wait for the other
--   known_by     VARCHAR  recorded, inferred or assumed
--   source_ns    BIGINT   when the one was, ns
--   target_ns    BIGINT   when the other was, ns
--   weight_ns    BIGINT   what lies between them at least, ns
--   quick_ns     BIGINT   the same by the tenth percentile of what is usual, ns
--   slow_ns      BIGINT   and by the ninetieth, ns
--   loading_ns   BIGINT   of it, inside of a data loader, ns
--   is_binding   BOOLEAN  of the edges into its target the one that ends last
--   rest_ns      BIGINT   of the edge that binds: what is left up to target_ns, ns; else 0

-- Work that other ranks take part in transfers from the meeting on.
WITH meeting AS (
    SELECT source_node
    FROM graph_meeting_edge
    WHERE kind = 'meeting'
),

posted AS (
    SELECT DISTINCT target_node
    FROM graph_meeting_edge
    WHERE kind = 'posted'
),

origin AS (SELECT min(start_ns) AS start_ns FROM graph_span),

edge AS (
    SELECT *
    FROM graph_host_edge
    UNION ALL BY NAME
    SELECT *
    FROM graph_work_edge
    UNION ALL BY NAME
    SELECT *
    FROM graph_wait_edge
    UNION ALL BY NAME
    SELECT *
    FROM graph_meeting_edge
),

-- Tasks of a backend's threads begin when they are posted, not where the thread's last span ended.
kept AS (
    SELECT e.*
    FROM edge AS e
    LEFT JOIN posted AS p USING (target_node)
    WHERE p.target_node IS NULL OR e.kind IN ('posted', 'worker')
),

whole AS (
    SELECT * FROM kept
    UNION ALL BY NAME
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
    LEFT JOIN meeting AS m ON s.span_id * 2 = m.source_node
    WHERE s.kind <> 'call'
    UNION ALL BY NAME
    -- What waits for nothing that is known starts when it was recorded, counted from the first of all.
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
    CROSS JOIN origin AS o
    ANTI JOIN kept AS k ON s.span_id * 2 = k.target_node
),

sorted AS (
    SELECT *
    FROM whole
    ORDER BY target_node, source_node, kind, known_by, weight_ns
),

numbered AS MATERIALIZED (
    SELECT
        row_number() OVER () - 1 AS edge_id,
        *,
        (target_ns - source_ns - weight_ns)::HUGEINT AS left_ns
    FROM sorted
),

-- The one that ends last, of equals the first.
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
