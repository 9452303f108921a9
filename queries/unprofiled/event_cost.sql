-- Profiler overhead per event of each kind.
-- Fitted for a fast host on half of 77 H200 recordings with a known unprofiled time and tested on the rest. The cost of
-- a call is fixed at that of an op because no loop separates the two.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id  INTEGER -> trace
--   kind     VARCHAR  op, call, range, own range, or python
--   each_ns  DOUBLE   cost of one event, ns
--   low_ns DOUBLE, high_ns DOUBLE

WITH hooked AS (
    SELECT trace_id
    FROM event
    WHERE is_annotation(category) AND starts_with(name, 'tk/module/backward/')
    GROUP BY trace_id
)

SELECT
    t.trace_id, v.kind,
    v.each_ns::DOUBLE AS each_ns,
    if(v.kind = 'own range', 0.6, 0.75) * v.each_ns::DOUBLE AS low_ns,
    if(v.kind = 'own range', 1.5, 1.35) * v.each_ns::DOUBLE AS high_ns
FROM trace AS t
LEFT JOIN hooked AS h USING (trace_id)
CROSS JOIN (
    VALUES
    ('op', 1200.0, NULL),
    ('call', 1200.0, NULL),
    ('range', 20000.0, NULL),
    ('own range', 2300.0, FALSE),
    ('own range', 70000.0, TRUE),
    ('python', 330.0, NULL)
) AS v (kind, each_ns, is_hooked)
WHERE coalesce(v.is_hooked = (h.trace_id IS NOT NULL), TRUE)
ORDER BY t.trace_id, v.kind
