-- Number of profiler events and host slowdown within each host edge of the dependency graph.
-- An event counts half at its start and half at its end. Waits, data loading, and host stalls contain no profiler cost.
-- The slowdown is interpolated between the samples of `host_speed`.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   edge_id    BIGINT -> graph_edge
--   own_ns     BIGINT   part of the weight that is the host's own time, ns
--   op_count DOUBLE, call_count DOUBLE, range_count DOUBLE, own_range_count DOUBLE, python_count DOUBLE
--   ratio      DOUBLE   slowdown; NULL if no thread of the trace has samples
--   is_paired  BOOLEAN  host_speed has samples of the thread; NULL without ops

-- Joins on times are three times as fast with one number as with three columns of a thread.
WITH host_thread AS MATERIALIZED (
    SELECT (trace_id, pid, tid) AS part, row_number() OVER () AS number
    FROM thread
    WHERE tid IS NOT NULL
),

edge AS MATERIALIZED (
    SELECT
        e.edge_id, e.source_ns, e.target_ns, t.trace_id, own.number AS thread,
        e.kind = 'work' AS is_work,
        if(e.kind IN ('host', 'call', 'work'), NULL, nullif(other.number, own.number))
            AS other_thread,
        -- If a synchronization waits for work from before the recording, the graph has no edge for
        -- the wait, so the host's own time is 0.
        if(
            e.kind = 'call' AND contains(t.name, 'Synchronize') AND t.end_ns - t.start_ns > 100000,
            0,
            greatest(e.weight_ns - e.loading_ns, 0)
        ) AS own_ns
    FROM graph_edge AS e
    INNER JOIN graph_span AS t ON e.target_node // 2 = t.span_id
    INNER JOIN host_thread AS own ON (t.trace_id, t.pid, t.tid) = own.part
    LEFT JOIN graph_span AS s ON e.source_node // 2 = s.span_id
    LEFT JOIN host_thread AS other ON (s.trace_id, s.pid, s.tid) = other.part
    WHERE
        e.target_node > 0
        AND (
            e.kind IN ('host', 'call', 'thread', 'spawn', 'posted_wait', 'long_launch')
            OR (e.kind = 'work' AND t.device = 'cpu')
        )
),

boundary AS (
    SELECT
        t.number AS thread,
        unnest([e.ts_ns, e.ts_ns + e.dur_ns]) + c.shift_ns AS at_ns,
        is_op(e.category) AS is_op,
        is_launch_call(e.category) AS is_call,
        is_annotation(e.category) AS is_range,
        starts_with(e.name, 'tk/') AS is_own,
        is_python_call(e.category) AS is_python
    FROM event AS e
    INNER JOIN graph_clock AS c USING (trace_id)
    INNER JOIN host_thread AS t ON (e.trace_id, e.pid, e.tid) = t.part
    WHERE
        is_op(e.category)
        OR is_annotation(e.category)
        OR is_python_call(e.category)
        OR is_launch_call(e.category)
),

host_time AS (
    SELECT trace_id AS part, edge_id AS id, source_ns AS start_ns, target_ns AS end_ns
    FROM edge
    WHERE NOT is_work AND source_ns < target_ns
),

pause AS (
    SELECT p.trace_id AS part, p.start_ns + c.shift_ns AS start_ns, p.end_ns + c.shift_ns AS end_ns
    FROM host_pauses AS p
    INNER JOIN graph_clock AS c USING (trace_id)
),

-- Sums of counts are HUGEINT; with INTEGER, the joins take a third less time.
time_point AS MATERIALIZED (
    SELECT
        thread, at_ns,
        (sum(count(*) FILTER (WHERE is_op)) OVER until_then)::INTEGER AS ops,
        (sum(count(*) FILTER (WHERE is_call)) OVER until_then)::INTEGER AS calls,
        (sum(count(*) FILTER (WHERE is_range AND NOT is_own)) OVER until_then)::INTEGER AS ranges,
        (sum(count(*) FILTER (WHERE is_range AND is_own)) OVER until_then)::INTEGER AS own_ranges,
        (sum(count(*) FILTER (WHERE is_python)) OVER until_then)::INTEGER AS pythons
    FROM boundary
    GROUP BY thread, at_ns
    WINDOW until_then AS (PARTITION BY thread ORDER BY at_ns)
),

counted AS (
    SELECT edge_id, thread, source_ns, target_ns
    FROM edge
    UNION ALL
    SELECT edge_id, other_thread AS thread, source_ns, target_ns
    FROM edge
    WHERE other_thread IS NOT NULL
),

in_edge AS (
    SELECT
        c.edge_id,
        sum(z.ops - coalesce(a.ops, 0)) / 2 AS op_count,
        sum(z.calls - coalesce(a.calls, 0)) / 2 AS call_count,
        sum(z.ranges - coalesce(a.ranges, 0)) / 2 AS range_count,
        sum(z.own_ranges - coalesce(a.own_ranges, 0)) / 2 AS own_range_count,
        sum(z.pythons - coalesce(a.pythons, 0)) / 2 AS python_count
    FROM counted AS c
    ASOF INNER JOIN time_point AS z ON c.thread = z.thread AND c.target_ns >= z.at_ns
    ASOF LEFT JOIN time_point AS a ON c.thread = a.thread AND c.source_ns >= a.at_ns
    GROUP BY c.edge_id
),

speed AS (
    SELECT
        t.number AS thread,
        s.ts_ns + c.shift_ns AS at_ns,
        s.ratio,
        lead(at_ns) OVER samples AS next_ns,
        lead(s.ratio) OVER samples AS next_ratio,
        first_value(s.ratio) OVER samples AS first_ratio
    FROM host_speed AS s
    INNER JOIN graph_clock AS c USING (trace_id)
    INNER JOIN host_thread AS t ON (s.trace_id, s.pid, s.tid) = t.part
    WINDOW samples AS (PARTITION BY t.number ORDER BY s.ts_ns)
),

of_thread AS (
    SELECT DISTINCT thread, first_ratio
    FROM speed
),

dispatching AS (
    SELECT DISTINCT thread
    FROM time_point
    WHERE ops > 0
),

of_trace AS (
    SELECT trace_id, quantile_cont(ratio, 0.5) AS ratio
    FROM host_speed
    GROUP BY trace_id
)

SELECT
    e.edge_id,
    greatest(e.own_ns - coalesce(u.overlap_ns, 0), 0) AS own_ns,
    coalesce(i.op_count, 0) AS op_count,
    coalesce(i.call_count, 0) AS call_count,
    coalesce(i.range_count, 0) AS range_count,
    coalesce(i.own_range_count, 0) AS own_range_count,
    coalesce(i.python_count, 0) AS python_count,
    -- The speed of CPU kernels does not show profiler overhead.
    if(e.is_work, 1, coalesce(
        s.ratio
        + (coalesce(s.next_ratio, s.ratio) - s.ratio)
        * least(
            ((e.source_ns + e.target_ns) // 2 - s.at_ns) / nullif(s.next_ns - s.at_ns, 0), 1
        ),
        s.ratio, f.first_ratio, o.ratio
    )) AS ratio,
    CASE WHEN f.thread IS NOT NULL THEN TRUE WHEN d.thread IS NOT NULL THEN FALSE END AS is_paired
FROM edge AS e
LEFT JOIN in_edge AS i USING (edge_id)
LEFT JOIN interval_overlap('host_time', 'pause') AS u ON e.edge_id = u.id
ASOF LEFT JOIN speed AS s ON e.thread = s.thread AND (e.source_ns + e.target_ns) // 2 >= s.at_ns
LEFT JOIN of_thread AS f ON e.thread = f.thread
LEFT JOIN dispatching AS d ON e.thread = d.thread
LEFT JOIN of_trace AS o ON e.trace_id = o.trace_id
ORDER BY e.edge_id
