-- Very short kernels, with the idle time before them.
-- A kernel that is shorter than its launch call cannot keep the device busy. Fusion, larger batches, or graphs help.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   max_kernel_ns  BIGINT = 10000  upper limit of short kernels, ns
--   limit          BIGINT = 20     number of rows per device; 0 for all
-- Columns:
--   rank INTEGER, device VARCHAR
--   name                VARCHAR  kernel name; (all short kernels) and (all kernels) are sums
--   class               VARCHAR  kernel class; NULL for sums
--   kernel_count        BIGINT   number of short device events
--   kernel_count_pct    DOUBLE   share of the device events of the device, 0 to 100
--   kernel_ns BIGINT, wall_ns BIGINT, wall_pct DOUBLE, mean_ns DOUBLE
--   idle_ns             BIGINT   idle time before the short kernels, ns
--   idle_pct            DOUBLE   idle_ns as a share of the device window, 0 to 100
--   launch_ns           BIGINT   sum of durations of the launch calls, ns; a graph launch counts once
--   launch_bound_count  BIGINT   number of kernels shorter than their launch call, or than their part of a graph launch
--   launch_bound_pct    DOUBLE   launch_bound_count as a share of the kernels with a recorded launch, 0 to 100
-- Invariant: launch_bound_count <= kernel_count AND wall_ns <= kernel_ns

WITH gap AS (
    SELECT trace_id, next_event_id, next_piece, sum(idle_ns)::BIGINT AS idle_ns
    FROM idle_gap
    GROUP BY trace_id, next_event_id, next_piece
),

work AS (
    SELECT
        e.trace_id, e.device, e.name, e.class,
        sum(e.dur_ns)::BIGINT AS dur_ns,
        sum(e.wall_ns)::BIGINT AS wall_ns,
        coalesce(sum(g.idle_ns), 0)::BIGINT AS idle_ns,
        e.link = 'launch' AS is_linked,
        if(e.link = 'launch', l.dur_ns, NULL) AS launch_ns,
        sum(e.dur_ns) * count(*) OVER (PARTITION BY e.trace_id, e.launch_id) < launch_ns
            AS is_launch_bound,
        row_number() OVER (
            PARTITION BY e.trace_id, e.launch_id, e.device ORDER BY min(e.ts_ns), e.event_id
        ) = 1 AS is_first
    FROM attributed_events AS e
    LEFT JOIN launch AS l ON e.trace_id = l.trace_id AND e.launch_id = l.launch_id
    LEFT JOIN gap AS g
        ON e.trace_id = g.trace_id AND e.event_id = g.next_event_id AND e.piece = g.next_piece
    GROUP BY
        e.trace_id, e.device, e.name, e.class, e.event_id, e.link, e.launch_id, l.dur_ns
),

listed AS (
    SELECT *, 2 AS position
    FROM work
    WHERE dur_ns < $max_kernel_ns
    UNION ALL
    SELECT * REPLACE ('(all short kernels)' AS name, NULL AS class), 1 AS position
    FROM work
    WHERE dur_ns < $max_kernel_ns
    UNION ALL
    SELECT * REPLACE ('(all kernels)' AS name, NULL AS class), 0 AS position
    FROM work
),

summed AS (
    SELECT
        trace_id, device, position, name, class,
        count(*) AS kernel_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS wall_ns,
        avg(dur_ns) AS mean_ns,
        sum(idle_ns)::BIGINT AS idle_ns,
        coalesce(sum(launch_ns) FILTER (is_first), 0)::BIGINT AS launch_ns,
        count(*) FILTER (is_launch_bound) AS launch_bound_count,
        count(*) FILTER (is_linked) AS linked_count
    FROM listed
    GROUP BY trace_id, device, position, name, class
)

SELECT
    w.rank, w.device, s.name, s.class, s.kernel_count,
    100.0 * s.kernel_count / w.event_count AS kernel_count_pct,
    s.kernel_ns, s.wall_ns,
    100.0 * s.wall_ns / nullif(w.window_ns, 0) AS wall_pct,
    s.mean_ns, s.idle_ns,
    100.0 * s.idle_ns / nullif(w.window_ns, 0) AS idle_pct,
    s.launch_ns, s.launch_bound_count,
    100.0 * s.launch_bound_count / nullif(s.linked_count, 0) AS launch_bound_pct
FROM summed AS s
INNER JOIN device_windows AS w USING (trace_id, device)
QUALIFY
    $limit = 0
    OR s.position < 2
    OR row_number() OVER (
        PARTITION BY s.trace_id, s.device, s.position
        ORDER BY s.kernel_ns + s.idle_ns DESC, s.name, s.class
    ) <= $limit
ORDER BY
    w.rank NULLS LAST, w.trace_id, w.device, s.position, s.kernel_ns + s.idle_ns DESC,
    s.name, s.class
