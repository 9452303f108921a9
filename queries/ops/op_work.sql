-- What did each call of an op take on the host, and what did it put on devices?
-- A call holds what is launched on its thread while it is open. What that is, is a range of the numbers of view host_spans,
-- so its figures are differences of running sums.
-- The ops of a graph's replays (view attribution, captured_id) took no time of the host, and have launched what is theirs.
-- Own time of the host is what no op inside leaves of it, by macro interval_self: own times of a thread add up to the
-- time in ops.
--
-- Kind:     table
-- Made:     when asked for
-- Columns:
--   trace_id             INTEGER -> trace            the trace
--   event_id             BIGINT -> record            the call
--   pid                  BIGINT                      process id
--   tid                  BIGINT -> thread(pid, tid)  thread id
--   name                 VARCHAR                     the op
--   place                BIGINT                      number of its start, of all threads
--   behind_place         BIGINT                      number of the first event of its thread that begins when it has ended
--   ts_ns                BIGINT                      start, ns
--   host_ns              BIGINT                      its duration, ns
--   self_host_ns         BIGINT                      of that, in no op inside of it, ns
--   kernel_count         BIGINT                      device events that were launched in it
--   kernel_ns            BIGINT                      sum of their durations, ns
--   wall_ns              BIGINT                      busy time of devices that is theirs, ns
--   direct_kernel_count  BIGINT                      device events of which it is the innermost op
--   direct_kernel_ns     BIGINT                      sum of their durations, ns
--   direct_wall_ns       BIGINT                      busy time of devices that is theirs, ns
-- Invariant: 0 <= self_host_ns AND self_host_ns <= host_ns
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND kernel_count >= 0 AND place < behind_place

WITH launched AS (
    SELECT
        trace_id, launch_id AS event_id,
        count(*) FILTER (piece = 0) AS kernel_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM attributed_events
    WHERE launch_id IS NOT NULL
    GROUP BY ALL
),

direct AS (
    SELECT
        trace_id, op_id AS event_id,
        count(*) FILTER (piece = 0) AS direct_kernel_count,
        sum(dur_ns)::BIGINT AS direct_kernel_ns,
        sum(wall_ns)::BIGINT AS direct_wall_ns
    FROM attributed_events
    WHERE op_id IS NOT NULL
    GROUP BY ALL
),

placed AS (
    SELECT
        s.*,
        is_op(s.category) AS is_op,
        coalesce(l.kernel_count, 0) AS kernel_count,
        coalesce(l.kernel_ns, 0) AS kernel_ns,
        coalesce(l.wall_ns, 0) AS wall_ns
    FROM host_spans AS s
    LEFT JOIN launched AS l USING (trace_id, event_id)
    WHERE is_op(s.category) OR l.event_id IS NOT NULL
),

running AS (
    SELECT
        *,
        sum(kernel_count) OVER so_far AS counted,
        sum(kernel_ns) OVER so_far AS kernels_ns,
        sum(wall_ns) OVER so_far AS walls_ns
    FROM placed
    WINDOW so_far AS (ORDER BY place ROWS UNBOUNDED PRECEDING)
),

begun AS (
    SELECT
        trace_id, pid, tid, ts_ns,
        max(place) AS place,
        max(counted) AS counted,
        max(kernels_ns) AS kernels_ns,
        max(walls_ns) AS walls_ns
    FROM running
    GROUP BY ALL
),

op AS (
    SELECT
        *,
        ts_ns + dur_ns AS end_ns
    FROM running
    WHERE is_op
),

open_op AS (
    SELECT (trace_id, pid, tid) AS part, place AS id, ts_ns AS start_ns, end_ns
    FROM op
    WHERE dur_ns > 0
),

own AS (
    SELECT id AS place, sum(end_ns - start_ns)::BIGINT AS self_host_ns
    FROM interval_self('open_op')
    GROUP BY ALL
)

SELECT
    o.trace_id, o.event_id, o.pid, o.tid, o.name, o.place,
    greatest(o.place, b.place) + 1 AS behind_place,
    o.ts_ns, o.dur_ns AS host_ns,
    coalesce(w.self_host_ns, 0) AS self_host_ns,
    (greatest(o.counted, b.counted) - o.counted + o.kernel_count)::BIGINT AS kernel_count,
    (greatest(o.kernels_ns, b.kernels_ns) - o.kernels_ns + o.kernel_ns)::BIGINT AS kernel_ns,
    (greatest(o.walls_ns, b.walls_ns) - o.walls_ns + o.wall_ns)::BIGINT AS wall_ns,
    coalesce(d.direct_kernel_count, 0) AS direct_kernel_count,
    coalesce(d.direct_kernel_ns, 0) AS direct_kernel_ns,
    coalesce(d.direct_wall_ns, 0) AS direct_wall_ns
FROM op AS o
ASOF LEFT JOIN begun AS b
    ON o.trace_id = b.trace_id AND o.pid = b.pid AND o.tid = b.tid AND o.end_ns > b.ts_ns
LEFT JOIN own AS w ON o.place = w.place
LEFT JOIN direct AS d ON o.trace_id = d.trace_id AND o.event_id = d.event_id
UNION ALL
SELECT
    e.trace_id, e.event_id, e.pid, e.tid, e.name,
    (1::BIGINT << 40) + e.event_id AS place,
    (1::BIGINT << 40) + e.event_id + 1 AS behind_place,
    e.ts_ns,
    0 AS host_ns,
    0 AS self_host_ns,
    d.direct_kernel_count AS kernel_count,
    d.direct_kernel_ns AS kernel_ns,
    d.direct_wall_ns AS wall_ns,
    d.direct_kernel_count, d.direct_kernel_ns, d.direct_wall_ns
FROM direct AS d
INNER JOIN record AS e USING (trace_id, event_id)
WHERE e.view_name IS NULL
ORDER BY place
