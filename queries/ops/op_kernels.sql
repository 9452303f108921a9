-- Kernels launched directly by each op.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   op     VARCHAR = NULL  only this op
--   limit  BIGINT = 30     number of rows per rank; 0 for all
-- Columns:
--   rank      INTEGER
--   op        VARCHAR  op that launched the kernel: the innermost one around the launch; NULL outside ops
--   name      VARCHAR  kernel or copy; in CPU traces, the op
--   class     VARCHAR
--   op_count  BIGINT   number of op calls that launched the kernel
--   kernel_count BIGINT, kernel_ns BIGINT, mean_ns DOUBLE, wall_ns BIGINT
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND (op IS NULL OR op_count <= kernel_count)

WITH op_event AS (
    SELECT
        a.trace_id, w.name AS op, a.name, a.class,
        count(DISTINCT w.event_id) AS op_count,
        count(*) FILTER (a.piece = 0) AS kernel_count,
        sum(a.dur_ns)::BIGINT AS kernel_ns,
        sum(a.wall_ns)::BIGINT AS wall_ns
    FROM attributed_events AS a
    LEFT JOIN op_work AS w ON a.trace_id = w.trace_id AND a.op_id = w.event_id
    WHERE $op IS NULL OR w.name = $op
    GROUP BY ALL
)

SELECT
    t.rank, r.op, r.name, r.class, r.op_count, r.kernel_count, r.kernel_ns,
    r.kernel_ns / r.kernel_count AS mean_ns,
    r.wall_ns
FROM op_event AS r
INNER JOIN trace AS t USING (trace_id)
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY r.trace_id ORDER BY r.kernel_ns DESC, r.op, r.name, r.class
    ) <= $limit
ORDER BY t.rank NULLS LAST, r.trace_id, r.kernel_ns DESC, r.op, r.name, r.class
