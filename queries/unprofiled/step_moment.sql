-- Which nodes of the graph say when the steps of each trace start and end?
-- A step ends with its last work. The first begins where its synchronisation with the device ends, if it begins with one. A
-- trace without marked steps has one: the time from its first work to its last.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id  INTEGER -> trace  the trace
--   kind      VARCHAR           begin of the first step, start of a step, or work that ends in one
--   step      BIGINT            number of the step; of a begin NULL where the start of the first step is another node
--   node      BIGINT            the node, as in graph_edge
--   at_ns     BIGINT            when it was recorded, ns
--   moment    BIGINT            the same for all nodes of a kind, trace and step, from 1

WITH accelerated AS (
    SELECT trace_id, bool_or(device <> 'cpu') AS has_device
    FROM graph_span
    WHERE kind = 'work'
    GROUP BY trace_id
),

marked AS (
    SELECT
        trace_id, step, tid, span_id * 2 AS node, start_ns,
        row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, span_id) = 1 AS is_first
    FROM graph_span
    WHERE kind = 'mark' AND name = 'step start'
),

first_work AS (
    SELECT trace_id, step, min(start_ns) AS start_ns
    FROM graph_span
    WHERE kind = 'work'
    GROUP BY trace_id, step
),

synchronised AS (
    SELECT
        m.trace_id,
        max(s.span_id * 2 + 1) AS node,
        max(s.end_ns) AS at_ns
    FROM marked AS m
    INNER JOIN graph_span AS s
        ON
            m.trace_id = s.trace_id
            AND m.tid = s.tid
            AND s.kind = 'call'
            AND regexp_matches(s.name, '^(cuda|hip)DeviceSynchronize$')
            AND s.start_ns BETWEEN m.start_ns AND m.start_ns + 1500000
    LEFT JOIN first_work AS f ON m.trace_id = f.trace_id AND m.step = f.step
    WHERE m.is_first AND s.start_ns <= coalesce(f.start_ns, s.start_ns)
    GROUP BY m.trace_id
),

work AS (
    SELECT s.trace_id, s.step, s.span_id, s.start_ns, s.end_ns
    FROM graph_span AS s
    INNER JOIN accelerated AS a USING (trace_id)
    WHERE s.kind = 'work' AND (s.device <> 'cpu') = a.has_device
),

worked AS (
    SELECT w.*
    FROM work AS w
    SEMI JOIN marked AS m ON w.trace_id = m.trace_id AND w.step = m.step
),

begun AS (
    SELECT
        m.trace_id,
        coalesce(s.node, m.node) AS node,
        coalesce(s.at_ns, m.start_ns) AS at_ns,
        if(s.node IS NULL, m.step, NULL) AS step
    FROM marked AS m
    LEFT JOIN synchronised AS s USING (trace_id)
    WHERE m.is_first
),

unmarked AS (
    SELECT *
    FROM work
    ANTI JOIN worked USING (trace_id)
),

moment AS (
    SELECT trace_id, 'begin' AS kind, step, node, at_ns
    FROM begun
    SEMI JOIN worked USING (trace_id)
    UNION ALL
    SELECT trace_id, 'start', step, node, start_ns
    FROM marked
    SEMI JOIN worked USING (trace_id)
    ANTI JOIN begun USING (node)
    UNION ALL
    SELECT trace_id, 'end', step, span_id * 2 + 1, end_ns
    FROM worked
    UNION ALL
    SELECT
        trace_id, 'begin', NULL,
        arg_min(span_id, (start_ns, span_id)) * 2,
        min(start_ns)
    FROM unmarked
    GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'end', NULL, span_id * 2 + 1, end_ns
    FROM unmarked
)

SELECT *, dense_rank() OVER (ORDER BY trace_id, kind, step) AS moment
FROM moment
ORDER BY moment, node
