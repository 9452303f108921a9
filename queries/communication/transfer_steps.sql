-- Mean time per step of collectives and copies by class, over the devices.
-- A device that has steps but no such work counts as 0. The rows (all) sum over all classes of a kind, so overlapping
-- work counts twice.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   communication per step
-- Input:    steps
-- Columns:
--   kind            VARCHAR  comm or memcpy
--   class           VARCHAR  class of the collective or copy, or (all)
--   step_kernel_ns  DOUBLE   sum of durations per step, ns
--   step_pct        DOUBLE   step_kernel_ns as a share of the mean step, percent; overlap counts twice
--   device_count    BIGINT
-- Invariant: 0 <= step_kernel_ns AND 0 <= step_pct

WITH counted AS (
    FROM stepped_devices('steps')
),

transfer AS (
    SELECT rank, device, 'comm' AS kind, class, step_kernel_ns, step_pct, rowid AS place
    FROM communication
    UNION ALL
    SELECT
        rank, device, 'memcpy' AS kind, direction AS class, step_kernel_ns, step_pct,
        rowid AS place
    FROM memcpy_steps
    WHERE direction <> '(all)'
),

summed AS (
    SELECT
        d.kind,
        if(grouping(d.class) = 1, '(all)', d.class) AS class,
        grouping(d.class) AS is_all,
        fsum(d.step_kernel_ns ORDER BY d.place) AS step_kernel_ns,
        fsum(d.step_pct ORDER BY d.place) AS step_pct
    FROM transfer AS d
    INNER JOIN counted AS c ON d.rank IS NOT DISTINCT FROM c.rank AND d.device = c.device
    GROUP BY GROUPING SETS ((d.kind, d.class), (d.kind))
),

kinds (kind) AS (VALUES ('comm'), ('memcpy'))

SELECT
    k.kind,
    coalesce(s.class, '(all)') AS class,
    coalesce(s.step_kernel_ns, 0) / n.device_count AS step_kernel_ns,
    coalesce(s.step_pct, 0) / n.device_count AS step_pct,
    n.device_count
FROM kinds AS k
CROSS JOIN (SELECT DISTINCT device_count FROM counted) AS n
LEFT JOIN summed AS s USING (kind)
ORDER BY k.kind, s.is_all, s.step_kernel_ns DESC NULLS LAST, s.class
