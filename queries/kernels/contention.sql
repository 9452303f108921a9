-- Slowdown of kernels by concurrent communication or compute, per device.
-- Compares concurrent kernels with kernels of the same kind (name, grid, block, phase, and shapes) that ran alone.
-- extra_ns is the time above the median of kernels that ran alone. Kernels that overlap with both communication and
-- compute are excluded. A kind needs a grid, and at least three samples alone with an interquartile range of at most a
-- tenth of their median.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank             INTEGER
--   device           VARCHAR  device number
--   concurrent_work  VARCHAR  concurrent work: comm or compute
--   slope_pct        DOUBLE   extra_ns as a percentage of overlap_ns; negative if kernels got faster; NULL for a single concurrent kernel
--   extra_ns         DOUBLE   time above the median of kernels that ran alone, ns
--   overlap_ns       BIGINT   time of overlap with other work, ns
--   kind_count       BIGINT   number of kinds of kernels compared
--   kernel_count     BIGINT   number of concurrent kernels compared
--   alone_count      BIGINT   number of kernels that ran alone
--   compared_pct     DOUBLE   overlap_ns as a share of all overlap with this kind of work, 0 to 100
--   reason           VARCHAR  why there is no slope; else NULL
-- Invariant: (slope_pct IS NULL) = (reason IS NOT NULL)
-- Invariant: kind_count <= kernel_count AND kind_count <= alone_count AND overlap_ns > 0

WITH work AS (
    SELECT
        e.trace_id, e.device, e.kind, e.dur_ns,
        (e.trace_id, e.device) AS part,
        row_number() OVER () AS id,
        e.ts_ns AS start_ns,
        e.ts_ns + e.dur_ns AS end_ns,
        k.args ->> '$.grid' AS grid,
        (e.name, e.phase, grid, k.args ->> '$.block', o.args ->> '$."Input Dims"') AS kernel
    FROM attributed_events AS e
    INNER JOIN event AS k USING (trace_id, event_id)
    LEFT JOIN event AS o ON e.trace_id = o.trace_id AND e.op_id = o.event_id
    WHERE e.device <> 'cpu' AND e.kind <> 'memcpy'
),

compute AS (
    SELECT *
    FROM work
    WHERE kind = 'compute'
),

comm AS (
    SELECT *
    FROM work
    WHERE kind = 'comm'
),

shared AS (
    SELECT *
    FROM interval_shared('compute')
),

covered AS (
    SELECT
        c.trace_id, c.device, c.kernel, c.grid, c.dur_ns,
        m.overlap_ns AS comm_ns,
        s.overlap_ns AS compute_ns
    FROM compute AS c
    INNER JOIN interval_overlap('compute', 'comm') AS m USING (id)
    INNER JOIN interval_overlap('compute', 'shared') AS s USING (id)
),

alone AS (
    SELECT trace_id, device, kernel, median(dur_ns) AS dur_ns, count(*) AS alone_count
    FROM covered
    WHERE comm_ns = 0 AND compute_ns = 0 AND grid IS NOT NULL
    GROUP BY ALL
    HAVING
        count(*) >= 3
        AND quantile_cont(dur_ns, 0.75) - quantile_cont(dur_ns, 0.25) <= 0.1 * median(dur_ns)
),

overlapped AS (
    SELECT *, 'comm' AS concurrent_work, comm_ns AS overlap_ns, compute_ns = 0 AS is_all
    FROM covered
    WHERE comm_ns > 0
    UNION ALL BY NAME
    SELECT *, 'compute' AS concurrent_work, compute_ns AS overlap_ns, comm_ns = 0 AS is_all
    FROM covered
    WHERE compute_ns > 0
),

compared AS (
    SELECT
        b.trace_id, b.device, b.concurrent_work, b.kernel,
        sum(b.dur_ns - a.dur_ns) AS extra_ns,
        sum(b.overlap_ns) AS overlap_ns,
        count(*) AS kernel_count,
        any_value(a.alone_count) AS alone_count
    FROM overlapped AS b
    INNER JOIN alone AS a USING (trace_id, device, kernel)
    WHERE b.is_all
    GROUP BY ALL
),

all_overlapped AS (
    SELECT trace_id, device, concurrent_work, sum(overlap_ns) AS all_ns
    FROM overlapped
    GROUP BY ALL
)

SELECT
    w.rank, w.device, c.concurrent_work,
    if(sum(c.kernel_count) > 1, 100.0 * sum(c.extra_ns) / sum(c.overlap_ns), NULL) AS slope_pct,
    sum(c.extra_ns) AS extra_ns,
    sum(c.overlap_ns)::BIGINT AS overlap_ns,
    count(*) AS kind_count,
    sum(c.kernel_count)::BIGINT AS kernel_count,
    sum(c.alone_count)::BIGINT AS alone_count,
    100.0 * sum(c.overlap_ns) / any_value(a.all_ns) AS compared_pct,
    if(sum(c.kernel_count) > 1, NULL, 'only one concurrent kernel can be compared') AS reason
FROM compared AS c
INNER JOIN all_overlapped AS a USING (trace_id, device, concurrent_work)
INNER JOIN device_windows AS w USING (trace_id, device)
GROUP BY w.rank, w.trace_id, w.device, c.concurrent_work
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, c.concurrent_work
