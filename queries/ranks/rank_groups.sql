-- Groups of ranks with similar timelines.
-- Ranks of a group have the same pipeline stage and phases, and the same level for each part of the timeline. Ranks are
-- sorted by a part to find its levels. A new level starts where the next rank takes longer by more than apart_pct of
-- the median window.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    timeline
-- Params:
--   apart_pct  DOUBLE = 2  gap between two levels, as a percentage of the median window
-- Columns:
--   group_number        BIGINT     group number; 1 is the largest group
--   rank_count          BIGINT     number of ranks and devices
--   rank_pct            DOUBLE     share of all ranks, 0 to 100
--   ranks               INTEGER[]  ranks of the group
--   example_rank        INTEGER    rank whose window is closest to the mean of the group
--   stage               BIGINT     pipeline stage; NULL without one
--   alike               VARCHAR    difference from the largest group; for the largest group, its phases
--   outlier_count       BIGINT     number of outliers, as in stragglers
--   window_ns           DOUBLE     mean window, ns
--   compute_ns          DOUBLE     mean compute, ns
--   exposed_comm_ns     DOUBLE     mean exposed communication, ns
--   exposed_memcpy_ns   DOUBLE     mean exposed copies, ns
--   idle_ns             DOUBLE     mean idle time, ns
--   comm_wait_ns        DOUBLE     mean wait for other ranks, ns
--   own_ns              DOUBLE     mean own time between collectives, ns; NULL without collectives
--   compute_pct         DOUBLE     share of the mean window, 0 to 100
--   exposed_comm_pct    DOUBLE     share of the mean window, 0 to 100
--   exposed_memcpy_pct  DOUBLE     share of the mean window, 0 to 100
--   idle_pct            DOUBLE     share of the mean window, 0 to 100
-- Keep:     group_number, rank_count, example_rank, alike, window_ns, compute_pct, exposed_comm_pct, idle_pct,
--           comm_wait_ns
-- Invariant: rank_count > 0 AND abs(compute_ns + exposed_comm_ns + exposed_memcpy_ns + idle_ns - window_ns) < 1

WITH phase_list AS (
    SELECT rank, device, list(DISTINCT phase ORDER BY phase) AS phases
    FROM phases
    WHERE wall_ns > 0
    GROUP BY rank, device
),

device AS (
    SELECT
        t.rowid AS place, t.rank, w.stage, w.is_outlier, w.comm_wait_ns, w.own_ns, t.window_ns,
        t.compute_ns, t.exposed_comm_ns, t.exposed_memcpy_ns, t.idle_ns,
        coalesce(array_to_string(p.phases, ', '), '') AS phases,
        $apart_pct * median(t.window_ns) OVER () / 100 AS apart_ns
    FROM timeline AS t
    INNER JOIN rank_waits AS w USING (rowid)
    LEFT JOIN phase_list AS p ON t.rank IS NOT DISTINCT FROM p.rank AND t.device = p.device
),

adjacent AS (
    SELECT
        *,
        compute_ns - min(compute_ns) OVER (ORDER BY compute_ns ROWS 1 PRECEDING) > apart_ns
            AS has_compute_step,
        exposed_comm_ns - min(exposed_comm_ns) OVER (ORDER BY exposed_comm_ns ROWS 1 PRECEDING)
        > apart_ns AS has_comm_step,
        exposed_memcpy_ns
        - min(exposed_memcpy_ns) OVER (ORDER BY exposed_memcpy_ns ROWS 1 PRECEDING)
        > apart_ns AS has_memcpy_step,
        idle_ns - min(idle_ns) OVER (ORDER BY idle_ns ROWS 1 PRECEDING) > apart_ns AS has_idle_step
    FROM device
),

level AS (
    SELECT
        *,
        count_if(has_compute_step) OVER (ORDER BY compute_ns) AS compute_level,
        count_if(has_comm_step) OVER (ORDER BY exposed_comm_ns) AS comm_level,
        count_if(has_memcpy_step) OVER (ORDER BY exposed_memcpy_ns) AS memcpy_level,
        count_if(has_idle_step) OVER (ORDER BY idle_ns) AS idle_level
    FROM adjacent
),

grouped AS (
    SELECT
        stage, phases, compute_level, comm_level, memcpy_level, idle_level,
        count(*) AS rank_count,
        list(rank ORDER BY place) AS ranks,
        min(place) AS first_place,
        count(*) FILTER (is_outlier) AS outlier_count,
        avg(window_ns) AS window_ns,
        avg(compute_ns) AS compute_ns,
        avg(exposed_comm_ns) AS exposed_comm_ns,
        avg(exposed_memcpy_ns) AS exposed_memcpy_ns,
        avg(idle_ns) AS idle_ns,
        avg(comm_wait_ns) AS comm_wait_ns,
        avg(own_ns) AS own_ns,
        list({'rank': rank, 'place': place, 'window_ns': window_ns}) AS members
    FROM level
    GROUP BY stage, phases, compute_level, comm_level, memcpy_level, idle_level
),

numbered AS (
    SELECT
        *,
        row_number() OVER largest AS group_number,
        sum(rank_count) OVER () AS all_count,
        first_value(stage) OVER largest AS usual_stage,
        first_value(phases) OVER largest AS usual_phases,
        first_value(compute_level) OVER largest AS usual_compute,
        first_value(comm_level) OVER largest AS usual_comm,
        first_value(memcpy_level) OVER largest AS usual_memcpy,
        first_value(idle_level) OVER largest AS usual_idle
    FROM grouped
    WINDOW largest AS (ORDER BY rank_count DESC, first_place)
),

nearest AS (
    SELECT
        group_number,
        arg_min(member.rank, (abs(member.window_ns - window_ns), member.place)) AS example_rank
    FROM (
        SELECT group_number, window_ns, unnest(members) AS member
        FROM numbered
    ) AS each_one
    GROUP BY group_number
)

SELECT
    n.group_number, n.rank_count,
    100.0 * n.rank_count / n.all_count::BIGINT AS rank_pct,
    n.ranks, e.example_rank, n.stage,
    if(
        n.group_number = 1,
        nullif(n.phases, ''),
        concat_ws(
            ', ',
            if(n.stage IS DISTINCT FROM n.usual_stage, format('stage {}', n.stage), NULL),
            if(n.phases <> n.usual_phases, 'phases ' || n.phases, NULL),
            more_or_less(n.compute_level - n.usual_compute, 'compute'),
            more_or_less(n.comm_level - n.usual_comm, 'exposed communication'),
            more_or_less(n.memcpy_level - n.usual_memcpy, 'exposed copies'),
            more_or_less(n.idle_level - n.usual_idle, 'idle')
        )
    ) AS alike,
    n.outlier_count, n.window_ns, n.compute_ns, n.exposed_comm_ns, n.exposed_memcpy_ns, n.idle_ns,
    n.comm_wait_ns, n.own_ns,
    100.0 * n.compute_ns / nullif(n.window_ns, 0) AS compute_pct,
    100.0 * n.exposed_comm_ns / nullif(n.window_ns, 0) AS exposed_comm_pct,
    100.0 * n.exposed_memcpy_ns / nullif(n.window_ns, 0) AS exposed_memcpy_pct,
    100.0 * n.idle_ns / nullif(n.window_ns, 0) AS idle_pct
FROM numbered AS n
INNER JOIN nearest AS e USING (group_number)
ORDER BY n.group_number
