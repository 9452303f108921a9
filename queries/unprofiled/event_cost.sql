-- What does one event of each kind add to the time of the host while it is recorded?
-- In the quick state of the host. The values were found on half of 77 recordings of an H200 whose time without the
-- profiler is known, and tried on the other half; that of a call is held, as no loop tells it from that of an op. Ranges of
-- tracekit's collectors cost most where hooks of tensors mark the backward pass, and 2.3 µs where they do not (measured on a CPU).
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id  INTEGER -> trace  the trace
--   kind      VARCHAR           op, call, range, own range or python
--   each_ns   DOUBLE            what one adds, ns
--   low_ns    DOUBLE            at least, ns
--   high_ns   DOUBLE            at most, ns

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
