-- Ops with host time and launched GPU work, like torch's key_averages().
-- Nested calls of the same op count once. self_host_ns adds up to the host time in ops, and direct_wall_ns to the busy
-- time of the devices. The row without an op contains work launched outside ops.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit  BIGINT = 30  number of ops per rank, sorted by GPU time, then host time; 0 for all
-- Columns:
--   rank                 INTEGER
--   op                   VARCHAR  op; NULL for work launched outside ops, without a recorded launch, or on gloo threads
--   op_count             BIGINT   number of calls
--   host_ns              BIGINT   time from start to end of calls, on all threads, ns
--   self_host_ns         BIGINT
--   kernel_count         BIGINT   number of device events launched, nested ops included
--   kernel_ns            BIGINT   sum of durations of those device events, ns
--   wall_ns              BIGINT
--   direct_kernel_count  BIGINT   number of directly launched device events
--   direct_kernel_ns     BIGINT
--   direct_wall_ns       BIGINT   busy time of directly launched device events, ns; overlap counts once
--   direct_wall_pct      DOUBLE   share of the busy time of the rank, 0 to 100
-- Keep:     rank, op, op_count, host_ns, self_host_ns, kernel_count, kernel_ns, direct_kernel_ns, wall_ns
-- Invariant: 0 <= self_host_ns AND 0 <= wall_ns AND wall_ns <= kernel_ns
-- Invariant: 0 <= direct_wall_ns AND direct_wall_ns <= direct_kernel_ns AND (op IS NOT NULL OR op_count = 0)
-- Invariant: direct_kernel_ns <= kernel_ns AND direct_kernel_count <= kernel_count

WITH call AS (
    SELECT
        *,
        coalesce(latest_end_before_ns(
            (trace_id, pid, tid, name), place, ts_ns + host_ns, place
        ) <= ts_ns, TRUE) AS is_outermost
    FROM op_work
),

summed AS (
    SELECT
        trace_id, name AS op,
        count(*) AS op_count,
        coalesce(sum(host_ns) FILTER (is_outermost), 0)::BIGINT AS host_ns,
        sum(self_host_ns)::BIGINT AS self_host_ns,
        coalesce(sum(kernel_count) FILTER (is_outermost), 0)::BIGINT AS kernel_count,
        coalesce(sum(kernel_ns) FILTER (is_outermost), 0)::BIGINT AS kernel_ns,
        coalesce(sum(wall_ns) FILTER (is_outermost), 0)::BIGINT AS wall_ns,
        sum(direct_kernel_count)::BIGINT AS direct_kernel_count,
        sum(direct_kernel_ns)::BIGINT AS direct_kernel_ns,
        sum(direct_wall_ns)::BIGINT AS direct_wall_ns
    FROM call
    GROUP BY ALL
    UNION ALL
    SELECT
        trace_id, NULL AS op, 0 AS op_count, 0 AS host_ns, 0 AS self_host_ns,
        count(*) FILTER (piece = 0) AS kernel_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS wall_ns,
        count(*) FILTER (piece = 0) AS direct_kernel_count,
        sum(dur_ns)::BIGINT AS direct_kernel_ns,
        sum(wall_ns)::BIGINT AS direct_wall_ns
    FROM attributed_events AS a
    ANTI JOIN op_work AS w ON a.trace_id = w.trace_id AND a.op_id = w.event_id
    GROUP BY ALL
)

SELECT
    t.rank, s.op, s.op_count, s.host_ns, s.self_host_ns, s.kernel_count, s.kernel_ns, s.wall_ns,
    s.direct_kernel_count, s.direct_kernel_ns, s.direct_wall_ns,
    100.0 * s.direct_wall_ns / nullif(sum(s.direct_wall_ns) OVER (PARTITION BY s.trace_id), 0)
        AS direct_wall_pct
FROM summed AS s
INNER JOIN trace AS t USING (trace_id)
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY s.trace_id
        ORDER BY s.direct_kernel_ns DESC, s.self_host_ns DESC, s.op NULLS LAST
    ) <= $limit
ORDER BY
    t.rank NULLS LAST, s.trace_id, s.direct_kernel_ns DESC, s.self_host_ns DESC, s.op NULLS LAST
