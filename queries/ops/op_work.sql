-- Op calls with host time and launched GPU work.
-- The work of a call is everything that its thread launches while the call is open. The spans in a call have
-- consecutive places in `host_spans`, so totals are differences of running sums. Ops of graph replays (captured_id in
-- attribution) take no host time. self_host_ns excludes nested ops and adds up to the time in ops per thread.
--
-- Kind:     table
-- Created:  on demand
-- Columns:
--   trace_id             INTEGER -> trace
--   event_id             BIGINT -> record  op call
--   pid BIGINT, tid BIGINT -> thread(pid, tid)
--   name                 VARCHAR           op
--   place                BIGINT            position of the call among the calls of all threads, by thread and start
--   behind_place         BIGINT            position after the last call inside this call
--   ts_ns                BIGINT
--   host_ns              BIGINT            duration, ns
--   self_host_ns         BIGINT
--   kernel_count         BIGINT            number of device events launched, nested ops included
--   kernel_ns BIGINT, wall_ns BIGINT
--   direct_kernel_count  BIGINT            number of directly launched device events
--   direct_kernel_ns     BIGINT
--   direct_wall_ns       BIGINT            busy time of directly launched device events, ns; overlap counts once
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
