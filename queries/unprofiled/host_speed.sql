-- Host slowdown over time, per thread.
-- The slowdown is the time from the start of an op to its first nested op, divided by its normal value. Normal is 1.18
-- × the reference in `nested_op_time` on autograd threads, and on all threads of a trace with tracekit's backward
-- ranges. On other threads, normal is 1.7 × the reference, because Python evicts the caches between ops. Each interval
-- of 1.5 ms with at least 12 pairs of ops has a row. Other threads with at least 12 pairs have one row.
--
-- Kind:     table
-- Created:  on demand
-- Columns:
--   trace_id INTEGER, pid BIGINT, tid BIGINT
--   ts_ns       BIGINT  mean start of the ops, ns
--   ratio       DOUBLE  slowdown; if above 1, the host was slower than normal
--   pair_count  BIGINT  number of pairs of an op and its first nested op

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
            AS slot
    FROM nested AS n
    INNER JOIN nested_op_time AS t USING (name, inner_name)
    INNER JOIN thread AS h USING (trace_id, pid, tid)
    WHERE n.is_pair
)

SELECT
    trace_id, pid, tid,
    avg(ts_ns)::BIGINT AS ts_ns,
    median(ratio) AS ratio,
    count(*) AS pair_count
FROM pair
GROUP BY GROUPING SETS ((trace_id, pid, tid, slot), (trace_id, pid, tid))
HAVING count(*) >= 12
QUALIFY slot IS NOT NULL OR count(slot) OVER (PARTITION BY trace_id, pid, tid) = 0
ORDER BY trace_id, pid, tid, ts_ns
