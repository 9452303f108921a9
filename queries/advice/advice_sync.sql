-- Which calls make the host wait for the device?
-- By the op that makes them, and by the call where none does; not those that wait for a copy to the device, which
-- advice_copies is about, and not those that nothing is launched behind. The line is the innermost Python function, neither torch's own nor built in, of the longest
-- of them.
--
-- Kind:     advice
-- Scope:    run
-- Requires: advice_text, host_waits, event_category, event, device_windows, launch, device_events, interval_innermost

WITH last_launch AS (SELECT trace_id, max(ts_ns) AS ts_ns FROM launch GROUP BY trace_id),

waits AS MATERIALIZED (
    SELECT
        w.trace_id, w.event_id, w.dur_ns, e.name AS call_name,
        row_number() OVER () AS id,
        (w.trace_id, w.pid, w.tid) AS part,
        w.ts_ns AS at_ns
    FROM host_waits AS w
    INNER JOIN event AS e USING (trace_id, event_id)
    LEFT JOIN launch AS l ON w.trace_id = l.trace_id AND w.event_id = l.launch_id
    LEFT JOIN device_events AS d ON l.trace_id = d.trace_id AND l.correlation = d.correlation
    INNER JOIN last_launch AS n ON w.trace_id = n.trace_id AND w.ts_ns < n.ts_ns
    WHERE
        w.kind IN ('sync', 'copy')
        AND is_launch_call(e.category)
        AND coalesce(NOT contains(d.name, 'HtoD'), TRUE)
),

op_span AS (
    SELECT
        (e.trace_id, e.pid, e.tid) AS part,
        e.event_id AS id, e.ts_ns AS start_ns, e.ts_ns + e.dur_ns AS end_ns
    FROM event AS e
    WHERE is_op(e.category) AND contains(e.name, '::')
),

python_span AS (
    SELECT
        (trace_id, pid, tid) AS part,
        event_id AS id, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
    FROM event
    WHERE is_user_python(category, name)
),

op_around AS (SELECT * FROM interval_innermost('waits', 'op_span')),

line_around AS (SELECT * FROM interval_innermost('waits', 'python_span')),

summed AS (
    SELECT
        if(o.name IS NULL, w.call_name, NULL) AS call_name,
        o.name AS op,
        arg_max(p.name, w.dur_ns) AS line,
        count(*) AS wait_count,
        sum(w.dur_ns)::BIGINT AS wait_ns
    FROM waits AS w
    LEFT JOIN op_around AS oa USING (id)
    LEFT JOIN event AS o ON w.trace_id = o.trace_id AND oa.span_id = o.event_id
    LEFT JOIN line_around AS la ON w.id = la.id
    LEFT JOIN event AS p ON w.trace_id = p.trace_id AND la.span_id = p.event_id
    GROUP BY ALL
)

SELECT
    format(
        'the host{} waits {} times for the device in {}, {} together', of_ranks(), wait_count,
        coalesce(op, call_name), in_ms(wait_ns)
    ) AS what,
    coalesce(line, op, call_name) AS place,
    if(
        op IS NULL, format('sync name={} remove', chosen_name(call_name)),
        format('sync op={} remove', chosen_name(op))
    ) AS change,
    NULL::VARCHAR AS at_most,
    wait_ns AS cost_ns,
    CASE
        WHEN op IN ('aten::_local_scalar_dense', 'aten::item')
            THEN
                'keep the value on the device: sum losses there and call .item() every 100 steps; '
                || 'no float(tensor), print(tensor) or `if tensor:` in the loop'
        WHEN op IN ('aten::nonzero', 'aten::index', 'aten::masked_select')
            THEN
                'no shapes that depend on values: torch.where or a multiplication by the mask '
                || 'instead of x[mask]'
        WHEN op IS NOT NULL
            THEN
                'copy at the end, or with non_blocking=True to pinned memory and read later'
        ELSE 'no torch.cuda.synchronize() in the loop; time with torch.cuda.Event'
    END AS remedy,
    'tracekit query idle_gaps TRACE --cause host_sync' AS evidence
FROM summed
WHERE wait_ns > 0
ORDER BY wait_ns DESC, place
LIMIT 4
