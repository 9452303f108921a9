-- Python calls and program ranges that keep the GPU idle without launching any work.
-- The host's part of each gap is sampled at 25, 50, and 75 %. The innermost Python function or range on the busy thread
-- is the cause. Ignores data loaders and engine workers that poll for a batch (covered by other rules), functions of
-- torch itself, and ranges of collectives.
--
-- Kind:     advice
-- Scope:    run

WITH share (part_of_gap) AS (VALUES (0.25), (0.5), (0.75)),

time_points AS MATERIALIZED (
    SELECT
        (g.trace_id, g.pid, coalesce(g.busy_tid, g.tid)) AS part,
        g.trace_id, g.device,
        g.idle_ns / 3 AS idle_ns,
        row_number() OVER () AS id,
        (g.start_ns + g.host_ns * s.part_of_gap)::BIGINT AS at_ns
    FROM idle_gap AS g, share AS s
    WHERE
        g.host_ns > 0
        AND g.cause NOT IN ('data_loading', 'comm_wait', 'graph_gap', 'not_recorded', 'profiler')
),

named AS MATERIALIZED (
    SELECT
        (trace_id, pid, tid) AS part, event_id AS id, trace_id, name,
        ts_ns AS start_ns, ts_ns + dur_ns AS end_ns
    FROM event
    WHERE
        dur_ns > 0
        AND (is_python_call(category) OR is_annotation(category))
        AND NOT regexp_matches(
            name,
            '^(ProfilerStep#|tk/|Optimizer\.|nn\.Module: |PyTorch Profiler|torch/|nccl:|gloo:|'
            || 'c10d::|tracekit/|<built-in method \w+ of type object)|/torch/|/tracekit/'
        )
),

largest AS MATERIALIZED (
    SELECT m.trace_id, m.device, n.name, sum(m.idle_ns)::BIGINT AS idle_ns
    FROM interval_innermost('time_points', 'named') AS i
    INNER JOIN time_points AS m USING (id)
    INNER JOIN named AS n ON m.trace_id = n.trace_id AND i.span_id = n.id
    WHERE NOT contains(n.name, 'sched_yield')
    GROUP BY ALL
    ORDER BY idle_ns DESC, n.name, m.trace_id
    LIMIT 12
),

called AS MATERIALIZED (
    SELECT n.part, n.id, n.trace_id, n.name, n.start_ns, n.end_ns
    FROM named AS n
    WHERE (n.trace_id, n.name) IN (SELECT (trace_id, name) FROM largest)
),

work AS MATERIALIZED (
    SELECT (trace_id, pid, tid) AS part, ts_ns AS start_ns, greatest(end_ns, ts_ns + 1) AS end_ns
    FROM launch
    UNION ALL
    SELECT (trace_id, pid, tid), ts_ns, ts_ns + dur_ns
    FROM host_waits
    WHERE kind = 'data_loading'
),

working AS (
    SELECT DISTINCT c.trace_id, c.name
    FROM interval_overlap('called', 'work') AS o
    INNER JOIN called AS c ON o.id = c.id
    WHERE o.overlap_ns > 0
),

times AS (
    SELECT trace_id, name, count(*) AS call_count, sum(end_ns - start_ns)::BIGINT AS call_ns
    FROM called
    GROUP BY ALL
)

SELECT
    format(
        'The GPU is idle for {} during {} of {}', in_ms(l.idle_ns),
        count_of(t.call_count, 'call'), l.name
    ) AS what,
    at_rank(r.rank, 'GPU waits for ' || l.name) AS place,
    'range=' || chosen_name(l.name) || rank_term(r.rank) || ' remove' AS change,
    least(l.idle_ns, t.call_ns) AS cost_ns,
    CASE l.name
        -- The profiler's name for gc.collect.
        WHEN '<built-in function collect>'
            THEN
                'Remove gc.collect() from the loop, or call it every n steps. gc.freeze() after '
                || 'startup makes each collection shorter.'
        WHEN '<built-in function sleep>' THEN 'Remove time.sleep() from the loop'
        ELSE 'Run it every n steps, or in another thread or process while the GPU works'
    END AS remedy,
    'tracekit query idle_gaps TRACE' AS evidence
FROM largest AS l
INNER JOIN times AS t USING (trace_id, name)
INNER JOIN trace AS r USING (trace_id)
ANTI JOIN working AS w ON l.trace_id = w.trace_id AND l.name = w.name
ORDER BY cost_ns DESC, place
LIMIT 4
