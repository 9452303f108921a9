-- How does each rank of the run spend its time, and which of them keeps the others waiting?
-- Waits are those of the analysis collective_skew: durations are compared, never the clocks of different ranks. A
-- rank whose trace is missing has no row; rank_count of world_size says how many there are.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: device_events, device_windows, collective_matches, step_ranges
-- Columns:
--   rank                INTEGER  global rank
--   device              VARCHAR  number of the device, or cpu
--   rank_count          BIGINT   ranks whose traces are here
--   world_size          INTEGER  ranks of the job, where the traces tell
--   window_ns           BIGINT   first device event's start to last one's end, ns
--   busy_ns             BIGINT   union of all device events, ns
--   compute_ns          BIGINT   union of compute events, ns
--   exposed_comm_ns     BIGINT   communication while nothing is computed, ns
--   exposed_memcpy_ns   BIGINT   copies while nothing is computed or communicated, ns
--   idle_ns             BIGINT   window_ns - busy_ns, ns
--   step_count          BIGINT   steps that the trace marks
--   step_ns             DOUBLE   their mean duration on the CPU, ns; NULL without steps
--   collective_count    BIGINT   collectives
--   matched_count       BIGINT   of these, matched with other ranks
--   transfer_ns         BIGINT   transfer time of the matched, ns
--   comm_wait_ns        BIGINT   what this rank waited for others in the matched, ns
--   last_count          BIGINT   matched collectives to which it came last
--   caused_wait_ns      BIGINT   waits of all other ranks in those, ns
--   is_straggler        BOOLEAN  no other rank caused more wait; NULL if nothing is matched
-- Keep:     rank, device, window_ns, compute_ns, exposed_comm_ns, idle_ns, step_ns, comm_wait_ns, caused_wait_ns,
--           is_straggler
-- Invariant: compute_ns + exposed_comm_ns + exposed_memcpy_ns + idle_ns = window_ns
-- Invariant: matched_count <= collective_count AND last_count <= matched_count

WITH kind_time AS (
    SELECT
        trace_id,
        device,
        coalesce(sum(wall_ns) FILTER (kind = 'compute'), 0)::BIGINT AS compute_ns,
        coalesce(sum(wall_ns) FILTER (kind = 'comm'), 0)::BIGINT AS exposed_comm_ns,
        coalesce(sum(wall_ns) FILTER (kind = 'memcpy'), 0)::BIGINT AS exposed_memcpy_ns
    FROM device_events
    GROUP BY trace_id, device
),

step_time AS (
    SELECT
        trace_id,
        count(*) AS step_count,
        sum(dur_ns)::BIGINT AS dur_ns
    FROM step_ranges
    GROUP BY trace_id
),

waited AS (
    SELECT
        *,
        sum(wait_ns) OVER (PARTITION BY match_id) AS all_wait_ns
    FROM collective_matches()
),

comm_time AS (
    SELECT
        trace_id,
        device,
        count(*) AS collective_count,
        count(wait_ns) AS matched_count,
        coalesce(sum(transfer_ns), 0)::BIGINT AS transfer_ns,
        coalesce(sum(wait_ns), 0)::BIGINT AS comm_wait_ns,
        count(*) FILTER (is_last) AS last_count,
        coalesce(sum(all_wait_ns) FILTER (is_last), 0)::BIGINT AS caused_wait_ns
    FROM waited
    GROUP BY trace_id, device
),

job AS (
    SELECT
        count(DISTINCT coalesce(rank, -1 - trace_id)) AS rank_count,
        max(world_size) AS world_size
    FROM trace
)

SELECT
    w.rank,
    w.device,
    j.rank_count,
    j.world_size,
    w.window_ns,
    w.busy_ns,
    k.compute_ns,
    k.exposed_comm_ns,
    k.exposed_memcpy_ns,
    w.window_ns - w.busy_ns AS idle_ns,
    coalesce(s.step_count, 0) AS step_count,
    s.dur_ns / s.step_count AS step_ns,
    coalesce(c.collective_count, 0) AS collective_count,
    coalesce(c.matched_count, 0) AS matched_count,
    coalesce(c.transfer_ns, 0) AS transfer_ns,
    coalesce(c.comm_wait_ns, 0) AS comm_wait_ns,
    coalesce(c.last_count, 0) AS last_count,
    coalesce(c.caused_wait_ns, 0) AS caused_wait_ns,
    CASE
        WHEN max(c.matched_count) OVER () > 0
            THEN
                coalesce(c.caused_wait_ns, 0) > 0
                AND c.caused_wait_ns = max(c.caused_wait_ns) OVER ()
    END AS is_straggler
FROM device_windows AS w
INNER JOIN kind_time AS k ON w.trace_id = k.trace_id AND w.device = k.device
LEFT JOIN step_time AS s ON w.trace_id = s.trace_id
LEFT JOIN comm_time AS c ON w.trace_id = c.trace_id AND w.device = c.device
CROSS JOIN job AS j
ORDER BY w.rank NULLS LAST, w.trace_id, w.device
