-- Time breakdown of each rank, with its waits and the waits it caused.
-- Waits come from matched collectives, by comparing durations instead of clocks of different ranks. They are NULL if no
-- collective of the rank is matched. Ranks without a trace have no row.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    timeline
-- Columns:
--   rank INTEGER, device VARCHAR
--   rank_count        BIGINT   number of ranks with a trace
--   world_size        INTEGER  number of ranks of the job, if known
--   window_ns BIGINT, busy_ns BIGINT, compute_ns BIGINT, exposed_comm_ns BIGINT
--   exposed_memcpy_ns BIGINT
--   idle_ns           BIGINT   window_ns - busy_ns, ns
--   step_count        BIGINT   number of marked steps
--   step_ns           DOUBLE   mean duration of steps on the host, ns; NULL without steps
--   collective_count  BIGINT   number of collectives
--   matched_count     BIGINT   number of collectives matched with other ranks
--   transfer_ns       BIGINT   transfer time in matched collectives, ns
--   comm_wait_ns      BIGINT   wait for other ranks in matched collectives, ns
--   last_count        BIGINT   number of matched collectives in which the rank arrived last and others waited
--   caused_wait_ns    BIGINT   time that other ranks waited in collectives in which this rank arrived last, ns
--   is_straggler      BOOLEAN  the rank causes the most wait; NULL without matched collectives
--   node              VARCHAR  machine (host name, or derived from device numbers)
--   stage             BIGINT   pipeline stage, from 0; NULL without one
--   own_ns            BIGINT   time between collectives, independent of other ranks, ns; NULL without collectives
--   excess_ns         DOUBLE   excess of own_ns over the median of the pipeline stage, ns
--   is_outlier        BOOLEAN  own_ns is an outlier, as in stragglers; NULL for fewer than four ranks
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
    FROM (
        SELECT trace_id, step, max(end_ns) - min(ts_ns) AS dur_ns
        FROM step_ranges
        GROUP BY trace_id, step
    ) AS marked
    GROUP BY trace_id
),

job AS (
    SELECT
        count(DISTINCT coalesce(rank, -1 - trace_id)) AS rank_count,
        max(world_size) AS world_size
    FROM trace
)

-- rank_waits and timeline have one row per device, in the same order.
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
