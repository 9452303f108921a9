-- Host waits for the device, by call, op, and Python line.
-- Excludes host-to-device copies, and waits without a later launch. is_tested marks `if tensor:` (aten::is_nonzero).
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    host_waits
-- Columns:
--   rank         INTEGER
--   call         VARCHAR  runtime or driver call that waits
--   op           VARCHAR  innermost op around the call; NULL outside ops
--   is_tested    BOOLEAN  Python branches on a tensor value: `if tensor:`
--   after_op     VARCHAR  previous op on the thread
--   python_line  VARCHAR  innermost Python function outside torch and builtins, as file(line): function
--   wait_count   BIGINT   number of waits
--   step_count   BIGINT   number of marked steps of the trace
--   wait_ns      BIGINT   time waited, ns
-- Invariant: wait_count > 0 AND wait_ns > 0

WITH last_launch AS (SELECT trace_id, max(ts_ns) AS ts_ns FROM launch GROUP BY trace_id),

waits AS MATERIALIZED (
    SELECT
        w.trace_id, w.event_id, w.dur_ns, e.name AS call_name,
        row_number() OVER () AS id,
        (w.trace_id, w.pid, w.tid) AS part,
        w.ts_ns AS at_ns
    FROM host_waits AS w
    INNER JOIN event AS e USING (trace_id, event_id)
    INNER JOIN last_launch AS n ON w.trace_id = n.trace_id AND w.ts_ns < n.ts_ns
    WHERE
        w.kind IN ('sync', 'copy')
        AND is_launch_call(e.category)
        AND (w.trace_id, w.event_id) NOT IN (
            SELECT (trace_id, l.launch_id)
            FROM launch AS l
            INNER JOIN device_events AS d USING (trace_id, correlation)
            WHERE copy_of(d.class) = 'h2d'
        )
),

op_span AS (
    SELECT
        (e.trace_id, e.pid, e.tid) AS part,
        e.event_id AS id, e.ts_ns AS start_ns, e.ts_ns + e.dur_ns AS end_ns, e.name
    FROM event AS e
    WHERE is_op(e.category) AND contains(e.name, '::') AND EXISTS (FROM waits)
),

test_span AS (SELECT * FROM op_span WHERE name = 'aten::is_nonzero'),

read_span AS (SELECT * FROM op_span WHERE name IN ('aten::is_nonzero', 'aten::item')),

python_span AS (
    SELECT
        (trace_id, pid, tid) AS part,
        event_id AS id, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
    FROM event
    WHERE is_user_python(category, name) AND EXISTS (FROM waits)
),

op_around AS (SELECT * FROM interval_innermost('waits', 'op_span')),

test_around AS (SELECT * FROM interval_innermost('waits', 'test_span')),

read_around AS (SELECT * FROM interval_innermost('waits', 'read_span')),

line_around AS (SELECT * FROM interval_innermost('waits', 'python_span')),

-- Start of the op that reads the value: aten::is_nonzero (around aten::item), or else aten::item.
read_from AS (
    SELECT
        w.id, w.part,
        coalesce(t.ts_ns, r.ts_ns) AS at_ns
    FROM waits AS w
    LEFT JOIN test_around AS ta USING (id)
    LEFT JOIN event AS t ON w.trace_id = t.trace_id AND ta.span_id = t.event_id
    LEFT JOIN read_around AS ra ON w.id = ra.id
    LEFT JOIN event AS r ON w.trace_id = r.trace_id AND ra.span_id = r.event_id
    WHERE coalesce(t.ts_ns, r.ts_ns) IS NOT NULL
),

called AS (
    SELECT part, start_ns, arg_min(name, (end_ns, id)) AS name
    FROM op_span
    WHERE
        name NOT IN ('aten::is_nonzero', 'aten::item', 'aten::_local_scalar_dense')
        AND NOT regexp_matches(name, '::(as_strided|detach|view|select|slice|narrow|empty\w*)$')
    GROUP BY ALL
),

steps AS (
    SELECT trace_id, count(DISTINCT step) AS step_count
    FROM step_ranges
    GROUP BY trace_id
)

SELECT
    r.rank, w.call_name AS call,
    o.name AS op,
    coalesce(ta.span_id IS NOT NULL, FALSE) AS is_tested,
    c.name AS after_op,
    p.name AS python_line,
    count(*) AS wait_count,
    coalesce(any_value(s.step_count), 0) AS step_count,
    sum(w.dur_ns)::BIGINT AS wait_ns
FROM waits AS w
INNER JOIN trace AS r USING (trace_id)
LEFT JOIN op_around AS oa USING (id)
LEFT JOIN event AS o ON w.trace_id = o.trace_id AND oa.span_id = o.event_id
LEFT JOIN test_around AS ta ON w.id = ta.id
LEFT JOIN line_around AS la ON w.id = la.id
LEFT JOIN event AS p ON w.trace_id = p.trace_id AND la.span_id = p.event_id
LEFT JOIN read_from AS f ON w.id = f.id
ASOF LEFT JOIN called AS c ON f.part = c.part AND f.at_ns > c.start_ns
LEFT JOIN steps AS s ON w.trace_id = s.trace_id
GROUP BY w.trace_id, r.rank, w.call_name, o.name, ta.span_id IS NOT NULL, c.name, p.name
ORDER BY r.rank NULLS LAST, w.trace_id, wait_ns DESC, call, op, after_op, python_line
