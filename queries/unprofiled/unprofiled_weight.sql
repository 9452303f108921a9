-- Estimated weight of each edge without the profiler, with bounds.
-- The host's own time is divided by the square root of the host slowdown (`host_speed`). The bounds divide by the
-- slowdown itself and by its fourth root. The cost of recording events is then subtracted; at least a tenth of the
-- quotient remains.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   edge_id BIGINT -> graph_edge, usual_ns BIGINT, low_ns BIGINT, high_ns BIGINT
--   host_ns  BIGINT  part of usual_ns that is the host's own time, ns

WITH hooked AS (
    SELECT DISTINCT trace_id
    FROM event
    WHERE is_annotation(category) AND starts_with(name, 'tk/module/backward/')
),

-- Cost of recording one event for the estimate, in ns, and its factors for the upper and the lower bound. Fitted for a
-- fast host on half of 77 H200 recordings with a known unprofiled step time, and tested on the other half. A call is
-- assumed to cost as much as an op, because no training loop separates the two.
cost AS (
    SELECT
        t.trace_id,
        map(list(v.kind), list([v.ns, v.high * v.ns, v.low * v.ns])) AS of_kind
    FROM trace AS t
    LEFT JOIN hooked AS h USING (trace_id)
    INNER JOIN (
        VALUES
        ('op', 1200::DOUBLE, 0.75, 1.35, NULL),
        ('call', 1200, 0.75, 1.35, NULL),
        ('range', 20000, 0.75, 1.35, NULL),
        ('own range', 2300, 0.6, 1.5, FALSE),
        ('own range', 70000, 0.6, 1.5, TRUE),
        ('python', 330, 0.75, 1.35, NULL)
    ) AS v (kind, ns, low, high, is_hooked)
        ON coalesce(v.is_hooked = (h.trace_id IS NOT NULL), TRUE)
    GROUP BY t.trace_id
),

-- Exponent of the slowdown for the estimate, the lower bound, and the upper bound. If the slowdown
-- is unknown, the lower bound assumes a slowdown of 2.5.
variant AS (
    SELECT *
    FROM (VALUES (1, 0.5, 1.0), (2, 1.0, 2.5), (3, 0.25, 1.0)) AS v (variant, exponent, unknown)
),

own AS (
    SELECT
        e.edge_id, v.variant, r.own_ns,
        r.own_ns / least(greatest(coalesce(r.ratio, v.unknown), 1), 3.4) ** v.exponent
            AS steady_ns,
        r.op_count * c.of_kind['op'][v.variant]
        + r.call_count * c.of_kind['call'][v.variant]
        + r.range_count * c.of_kind['range'][v.variant]
        + r.own_range_count * c.of_kind['own range'][v.variant]
        + r.python_count * c.of_kind['python'][v.variant] AS cost_ns,
        greatest(steady_ns - cost_ns, 0.1 * steady_ns) AS host_ns
    FROM recorded_event AS r
    INNER JOIN graph_edge AS e USING (edge_id)
    INNER JOIN cost AS c USING (trace_id)
    CROSS JOIN variant AS v
),

weighed AS (
    SELECT
        e.edge_id, v.variant,
        CASE
            WHEN e.kind = 'launch'
                THEN greatest(e.weight_ns - c.of_kind['call'][v.variant] / 2, e.weight_ns / 2)
            ELSE e.weight_ns - coalesce(o.own_ns - o.host_ns, 0)
        END AS ns,
        coalesce(o.host_ns, 0) AS host_ns
    FROM graph_edge AS e
    INNER JOIN cost AS c USING (trace_id)
    CROSS JOIN variant AS v
    LEFT JOIN own AS o ON e.edge_id = o.edge_id AND v.variant = o.variant
)

SELECT
    edge_id,
    any_value(round(ns)::BIGINT) FILTER (WHERE variant = 1) AS usual_ns,
    any_value(round(ns)::BIGINT) FILTER (WHERE variant = 2) AS low_ns,
    any_value(round(ns)::BIGINT) FILTER (WHERE variant = 3) AS high_ns,
    any_value(round(host_ns)::BIGINT) FILTER (WHERE variant = 1) AS host_ns
FROM weighed
GROUP BY edge_id
ORDER BY edge_id
