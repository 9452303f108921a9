-- Which kernels did each op launch itself?
-- One row for each op and kernel: what an op has become on this device.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   op     VARCHAR = NULL  only kernels of this op
--   limit  BIGINT = 30     rows of each rank; 0 for all
-- Columns:
--   rank          INTEGER  global rank
--   op            VARCHAR  innermost op around the launch; NULL where there is none
--   name          VARCHAR  kernel, copy or op
--   class         VARCHAR  its class, as in kernel_classes
--   op_count      BIGINT   calls of the op that launched it
--   kernel_count  BIGINT   how often it ran
--   kernel_ns     BIGINT   sum of its durations, ns
--   mean_ns       DOUBLE   mean duration, ns
--   wall_ns       BIGINT   busy time of the devices that is its own, ns
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND (op IS NULL OR op_count <= kernel_count)

WITH ran AS (
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
FROM ran AS r
INNER JOIN trace AS t USING (trace_id)
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY r.trace_id ORDER BY r.kernel_ns DESC, r.op, r.name, r.class
    ) <= $limit
ORDER BY t.rank NULLS LAST, r.trace_id, r.kernel_ns DESC, r.op, r.name, r.class
