-- Compute that overlaps with communication, by collective class and kernel.
-- Each nanosecond belongs to one collective and one kernel. If several run at once, it belongs to the one that started
-- first. The rows of a collective class add up to its communication time.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    collective_events
-- Params:
--   limit  BIGINT = 10  number of kernels per class; one row combines the rest; 0 for all
-- Columns:
--   rank INTEGER, device VARCHAR
--   comm_class     VARCHAR  class of the collectives
--   comm_ns        BIGINT
--   compute_class  VARCHAR  kernel class; NULL for (exposed) and (others)
--   compute_name   VARCHAR  kernel or op; (exposed), or (others) beyond the limit
--   overlap_ns     BIGINT   communication time that overlaps with the kernel, ns
--   comm_pct       DOUBLE   overlap_ns as a share of comm_ns, 0 to 100
-- Invariant: 0 <= overlap_ns AND overlap_ns <= comm_ns

WITH comm AS (
    SELECT
        trace_id, device, class,
        trace_id || '/' || device AS part,
        row_number() OVER () AS id,
        end_ns - kind_wall_ns AS start_ns,
        end_ns, kind_wall_ns, wall_ns
    FROM collective_events
    WHERE kind_wall_ns > 0
),

compute AS (
    SELECT
        class, name,
        trace_id || '/' || device AS part,
        row_number() OVER () AS id,
        end_ns - kind_wall_ns AS start_ns,
        end_ns
    FROM device_events
    WHERE kind = 'compute' AND kind_wall_ns > 0 AND trace_id IN (SELECT trace_id FROM comm)
),

comm_time AS (
    SELECT
        trace_id, device, class,
        sum(kind_wall_ns)::BIGINT AS comm_ns,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM comm
    GROUP BY trace_id, device, class
),

hidden AS (
    SELECT
        comm.trace_id, comm.device, comm.class, compute.class AS compute_class,
        compute.name AS compute_name,
        sum(pair.overlap_ns)::BIGINT AS overlap_ns
    FROM interval_pairs('comm', 'compute') AS pair
    INNER JOIN comm ON pair.left_id = comm.id
    INNER JOIN compute ON pair.right_id = compute.id
    GROUP BY comm.trace_id, comm.device, comm.class, compute.class, compute.name
),

ranked AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id, device, class
            ORDER BY overlap_ns DESC, compute_name, compute_class
        ) AS position
    FROM hidden
),

shown AS (
    SELECT
        trace_id, device, class,
        CASE WHEN $limit = 0 OR position <= $limit THEN compute_class END AS compute_class,
        CASE WHEN $limit = 0 OR position <= $limit THEN compute_name ELSE '(others)' END
            AS compute_name,
        sum(overlap_ns)::BIGINT AS overlap_ns
    FROM ranked
    GROUP BY ALL
    UNION ALL
    SELECT
        trace_id, device, class, NULL AS compute_class,
        '(exposed)' AS compute_name,
        wall_ns AS overlap_ns
    FROM comm_time
)

SELECT
    w.rank, w.device, c.class AS comm_class, c.comm_ns, p.compute_class, p.compute_name,
    p.overlap_ns,
    100.0 * p.overlap_ns / nullif(c.comm_ns, 0) AS comm_pct
FROM shown AS p
INNER JOIN comm_time AS c USING (trace_id, device, class)
INNER JOIN device_windows AS w USING (trace_id, device)
ORDER BY
    w.rank NULLS LAST, w.trace_id, w.device, c.comm_ns DESC, c.class,
    p.overlap_ns DESC, p.compute_name, p.compute_class
