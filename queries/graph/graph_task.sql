-- Which collectives ran on threads of their backend, and which calls posted them?
-- Of gloo and its like: calls of c10d, and spans on threads that run nothing else. They belong together in their order
-- within the process, if there are as many of both and none runs before its call.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   trace_id       INTEGER -> trace  the trace
--   span_id        BIGINT            the span of the collective
--   start_ns       BIGINT            its start, ns
--   end_ns         BIGINT            its end, ns
--   before_id      BIGINT            the collective before it on its thread
--   before_end_ns  BIGINT            end of that one, ns
--   post_id        BIGINT            the span of the call that posted it
--   post_ns        BIGINT            its start, ns
--   post_end_ns    BIGINT            its end, ns
--   pid            BIGINT            process id of both
--   post_tid       BIGINT            thread of the call
--   usual_ns       BIGINT            usual from the call to the start: the tenth percentile, ns

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
        row_number() OVER (PARTITION BY trace_id, pid ORDER BY start_ns, span_id) AS number
    FROM collective
    WHERE is_call
),

posted AS (
    SELECT
        t.*, p.span_id AS post_id, p.start_ns AS post_ns, p.end_ns AS post_end_ns,
        p.tid AS post_tid,
        bool_and(p.start_ns <= t.start_ns) OVER process AS is_in_order,
        count(*) OVER process AS task_count,
        quantile_disc(t.start_ns - p.start_ns, 0.1) OVER process AS usual_ns
    FROM task AS t
    INNER JOIN post AS p USING (trace_id, pid, number)
    WINDOW process AS (PARTITION BY t.trace_id, t.pid)
),

post_count AS (
    SELECT trace_id, pid, count(*) AS post_count
    FROM post
    GROUP BY trace_id, pid
)

SELECT
    p.trace_id, p.span_id, p.start_ns, p.end_ns, p.before_id, p.before_end_ns, p.post_id, p.post_ns,
    p.post_end_ns, p.pid, p.post_tid, p.usual_ns
FROM posted AS p
INNER JOIN post_count AS c USING (trace_id, pid)
WHERE p.is_in_order AND p.task_count = c.post_count
ORDER BY p.span_id
