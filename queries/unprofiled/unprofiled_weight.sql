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

-- Cost of recording the events of each edge. Fitted for a fast host on half of 77 H200 recordings with a known
-- unprofiled step time, and tested on the other half. A call is assumed to cost as much as an op, because no training
-- loop separates the two. If the slowdown is unknown, the lower bound assumes 2.5.
recorded AS (
    SELECT
        r.edge_id, r.own_ns,
        1200 * (r.op_count + r.call_count) + 20000 * r.range_count + 330 * r.python_count
            AS cost_ns,
        if(h.trace_id IS NULL, 2300, 70000) * r.own_range_count AS own_range_cost_ns,
        least(greatest(coalesce(r.ratio, 1), 1), 3.4) AS slowdown,
        least(greatest(coalesce(r.ratio, 2.5), 1), 3.4) AS high_slowdown
    FROM recorded_event AS r
    INNER JOIN graph_edge AS e USING (edge_id)
    LEFT JOIN hooked AS h USING (trace_id)
),

own AS (
    SELECT
        edge_id, own_ns,
        own_ns / sqrt(slowdown) AS usual_steady_ns,
        own_ns / high_slowdown AS low_steady_ns,
        own_ns / slowdown ** 0.25 AS high_steady_ns,
        greatest(usual_steady_ns - cost_ns - own_range_cost_ns, 0.1 * usual_steady_ns) AS usual_ns,
        greatest(low_steady_ns - 1.35 * cost_ns - 1.5 * own_range_cost_ns, 0.1 * low_steady_ns)
            AS low_ns,
        greatest(high_steady_ns - 0.75 * cost_ns - 0.6 * own_range_cost_ns, 0.1 * high_steady_ns)
            AS high_ns
    FROM recorded
),

-- Time that each edge loses without the profiler; a launch loses half the cost of a call, at most half its weight.
lost AS (
    SELECT
        e.edge_id, e.weight_ns, o.usual_ns AS host_ns,
        if(e.kind = 'launch', least(600, e.weight_ns / 2), coalesce(o.own_ns - o.usual_ns, 0))
            AS usual_ns,
        if(e.kind = 'launch', least(810, e.weight_ns / 2), coalesce(o.own_ns - o.low_ns, 0))
            AS low_ns,
        if(e.kind = 'launch', least(450, e.weight_ns / 2), coalesce(o.own_ns - o.high_ns, 0))
            AS high_ns
    FROM graph_edge AS e
    LEFT JOIN own AS o USING (edge_id)
)

SELECT
    edge_id,
    round(weight_ns - usual_ns)::BIGINT AS usual_ns,
    round(weight_ns - low_ns)::BIGINT AS low_ns,
    round(weight_ns - high_ns)::BIGINT AS high_ns,
    round(coalesce(host_ns, 0))::BIGINT AS host_ns
FROM lost
ORDER BY edge_id
