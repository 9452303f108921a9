-- How does each rank of the run spend its time, and which of them keeps the others waiting?
-- Waits are those of the analysis collective_skew: durations are compared, never the clocks of different ranks. A
-- rank whose trace is missing has no row; rank_count of world_size says how many there are.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    timeline
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
--   node                VARCHAR  machine: the host that the trace or its file names, else by the numbers of devices
--   stage               BIGINT   place in its pipeline, from 0; NULL without one
--   own_ns              BIGINT   time between collectives, which no other rank decides, ns; NULL without collectives
--   excess_ns           DOUBLE   own_ns beyond the median of the ranks at the same stage, ns
--   is_outlier          BOOLEAN  that is beyond the robust limit of analysis stragglers; NULL for fewer than four ranks
-- Keep:     rank, device, window_ns, compute_ns, exposed_comm_ns, idle_ns, step_ns, comm_wait_ns, caused_wait_ns,
--           is_straggler
-- View:
--   browse  key=6 menu=ranks title=Ranks
--           columns=rank,device,window_ns,compute_ns,exposed_comm_ns,idle_ns,comm_wait_ns,caused_wait_ns
-- Invariant: compute_ns + exposed_comm_ns + exposed_memcpy_ns + idle_ns = window_ns
-- Invariant: matched_count <= collective_count AND last_count <= matched_count
-- Invariant: own_ns IS NULL OR own_ns <= window_ns

WITH step_time AS (
    SELECT trace_id, count(*) AS step_count, sum(dur_ns)::BIGINT AS dur_ns
    FROM step_ranges
    GROUP BY trace_id
),

job AS (
    SELECT
        count(DISTINCT coalesce(rank, -1 - trace_id)) AS rank_count,
        max(world_size) AS world_size
    FROM trace
)

-- Both have a row for each device, in the same order.
SELECT
    w.rank, w.device, j.rank_count, j.world_size, w.window_ns, w.busy_ns, w.compute_ns,
    w.exposed_comm_ns, w.exposed_memcpy_ns, w.idle_ns,
    coalesce(s.step_count, 0) AS step_count,
    s.dur_ns / s.step_count AS step_ns,
    c.collective_count, c.matched_count, c.transfer_ns, c.comm_wait_ns, c.last_count,
    c.caused_wait_ns, CASE
        WHEN max(c.matched_count) OVER () > 0
            THEN c.caused_wait_ns > 0 AND c.caused_wait_ns = max(c.caused_wait_ns) OVER ()
    END AS is_straggler, c.node, c.stage, c.own_ns, c.excess_ns, c.is_outlier
FROM timeline AS w
INNER JOIN rank_waits AS c USING (rowid)
LEFT JOIN step_time AS s USING (trace_id)
CROSS JOIN job AS j
ORDER BY w.rowid
