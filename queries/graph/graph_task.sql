-- Collectives on backend threads (gloo), with the calls that posted them.
-- Calls and tasks of a process are paired in order, if their counts are equal and no task starts before its call.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, span_id BIGINT, start_ns BIGINT, end_ns BIGINT, before_id BIGINT
--   before_end_ns BIGINT, post_id BIGINT, post_ns BIGINT, post_end_ns BIGINT, pid BIGINT
--   post_tid BIGINT
--   usual_ns  BIGINT  typical time from the call to the start of the task (10th percentile), ns

WITH collective AS (
    SELECT
        trace_id, pid, tid, span_id, start_ns, end_ns,
        starts_with(name, 'c10d::') AS is_call
    FROM graph_span
    WHERE device = 'cpu' AND work_kind = 'comm' AND piece = 0
),

worker AS (
    SELECT trace_id, pid, tid
    FROM graph_span
    WHERE tid IS NOT NULL
    GROUP BY ALL
    HAVING
        bool_and(
            kind = 'mark'
            OR coalesce(work_kind = 'comm' AND NOT starts_with(name, 'c10d::'), FALSE)
        )
),

task AS (
    SELECT
        c.*,
        row_number() OVER (PARTITION BY c.trace_id, c.pid ORDER BY c.start_ns, c.span_id) AS number,
        lag(c.span_id) OVER thread AS before_id,
        lag(c.end_ns) OVER thread AS before_end_ns
    FROM collective AS c
    SEMI JOIN worker AS w ON c.trace_id = w.trace_id AND c.pid = w.pid AND c.tid = w.tid
    WINDOW thread AS (PARTITION BY c.trace_id, c.pid, c.tid ORDER BY c.start_ns, c.span_id)
),

post AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY trace_id, pid ORDER BY start_ns, span_id) AS number,
        count(*) OVER (PARTITION BY trace_id, pid) AS post_count
    FROM collective
    WHERE is_call
)

SELECT
    t.trace_id, t.span_id, t.start_ns, t.end_ns, t.before_id, t.before_end_ns,
    p.span_id AS post_id, p.start_ns AS post_ns, p.end_ns AS post_end_ns, t.pid, p.tid AS post_tid,
    quantile_disc(t.start_ns - p.start_ns, 0.1) OVER process AS usual_ns
FROM task AS t
INNER JOIN post AS p USING (trace_id, pid, number)
WINDOW process AS (PARTITION BY t.trace_id, t.pid)
QUALIFY bool_and(p.start_ns <= t.start_ns) OVER process AND count(*) OVER process = p.post_count
ORDER BY t.span_id
