-- How fast was the host while it was recorded?
-- How much longer an op took until the first op inside of it began than is usual: nothing but dispatch and the profiler
-- lies there. Usual is 1.18 times the quick state of the reference (table nested_op_time) on a thread of the autograd engine
-- and 1.7 times on one that runs Python: Python between two ops evicts the caches of dispatch, profiler or not. Hooks of
-- tracekit's collectors run Python on both. The median of each 1.5 ms of a thread in which there are 12 such ops and more;
-- a thread that has so few at any time has one row.
--
-- Kind:     table
-- Made:     when asked for
-- Columns:
--   trace_id    INTEGER  the trace
--   pid         BIGINT   process id
--   tid         BIGINT   thread id
--   ts_ns       BIGINT   middle of these ops, on the trace's own clock, ns
--   ratio       DOUBLE   of what is usual; above 1 the host was slower
--   pair_count  BIGINT   ops that it rests on

WITH nested AS (
    SELECT
        trace_id, pid, tid, ts_ns, name,
        lead(ts_ns) OVER thread AS inner_ns,
        is_op(category)
        AND lead(is_op(category)) OVER thread
        AND lead(ts_ns) OVER thread < ts_ns + dur_ns AS is_pair,
        lead(name) OVER thread AS inner_name
    FROM event
    WHERE
        tid IS NOT NULL
        AND (
            is_op(category)
            OR is_annotation(category)
            OR is_python_call(category)
            OR is_launch_call(category)
        )
    WINDOW thread AS (PARTITION BY trace_id, pid, tid ORDER BY ts_ns, dur_ns DESC, event_id)
),

thread AS (
    SELECT
        trace_id, pid, tid,
        if(
            bool_or(starts_with(name, 'autograd::engine::'))
            OR bool_or(bool_or(starts_with(name, 'tk/module/backward/')))
                OVER (PARTITION BY trace_id),
            1.18,
            1.7
        ) AS usual
    FROM nested
    GROUP BY trace_id, pid, tid
),

pair AS (
    SELECT
        n.trace_id, n.pid, n.tid, n.ts_ns,
        (n.inner_ns - n.ts_ns) / (t.quick_ns * h.usual) AS ratio,
        (n.ts_ns - min(n.ts_ns) OVER (PARTITION BY n.trace_id, n.pid, n.tid)) // 1500000
            AS stretch
    FROM nested AS n
    INNER JOIN nested_op_time AS t USING (name, inner_name)
    INNER JOIN thread AS h USING (trace_id, pid, tid)
    WHERE n.is_pair
),

by_stretch AS (
    SELECT
        trace_id, pid, tid, stretch,
        avg(ts_ns)::BIGINT AS ts_ns,
        median(ratio) AS ratio,
        count(*) AS pair_count
    FROM pair
    GROUP BY trace_id, pid, tid, stretch
    HAVING count(*) >= 12
),

by_thread AS (
    SELECT
        trace_id, pid, tid,
        avg(ts_ns)::BIGINT AS ts_ns,
        median(ratio) AS ratio,
        count(*) AS pair_count
    FROM pair
    GROUP BY trace_id, pid, tid
    HAVING count(*) >= 12
)

SELECT trace_id, pid, tid, ts_ns, ratio, pair_count
FROM by_stretch
UNION ALL
SELECT trace_id, pid, tid, ts_ns, ratio, pair_count
FROM by_thread
ANTI JOIN by_stretch USING (trace_id, pid, tid)
ORDER BY trace_id, pid, tid, ts_ns
