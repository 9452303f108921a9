-- How much may work grow before the run ends later, and how much earlier would it end without it?
-- Both by replay. The slack is that of the work of a group that has the least: if this alone takes longer. The gain is that of
-- all its works at once, though each may be on no critical path; gains of two groups do not add up.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   by  VARCHAR{kernel|module|class|phase|collective} = class  what a group is
-- Columns:
--   value       VARCHAR  kernel, module, class, phase or collective
--   work_count  BIGINT   works on all ranks
--   work_ns     BIGINT   sum of their durations, ns
--   path_ns     BIGINT   of it, on the critical paths of all ranks, ns
--   slack_ns    BIGINT   the least by which one of them may grow before the run ends later, ns
--   gain_ns     BIGINT   by how much the run would end earlier if none of them took any time, ns
--   gain_pct    DOUBLE   of the recorded time, 0 to 100
-- View:
--   chart  form=bars title="How much earlier the run would end without it" y=value x=gain_ns axis="gain if it took no time"
--          colour=vermillion tip=value,gain_ns,gain_pct,path_ns,work_ns,work_count,slack_ns
-- Invariant: slack_ns >= 0 AND gain_ns >= 0
-- Empty: device_events: no work of a device is recorded

WITH slack AS (
    SELECT f.name, f.module, f.class, f.phase, f.work_kind, t.latest_ns - t.at_ns AS slack_ns
    FROM edge_fact AS f
    INNER JOIN graph_edge AS e USING (edge_id)
    INNER JOIN graph_timing AS t ON e.target_node = t.node
    WHERE f.part = 'work' AND t.latest_ns IS NOT NULL
),

least_slack AS (
    SELECT
        CASE $by
            WHEN 'kernel' THEN if(work_kind = 'comm', NULL, name)
            WHEN 'module' THEN module
            WHEN 'class' THEN class
            WHEN 'phase' THEN phase
            ELSE if(work_kind = 'comm', name, NULL)
        END AS value,
        min(slack_ns) AS slack_ns
    FROM slack
    GROUP BY value
),

whole AS (SELECT max(at_ns) AS ns FROM graph_timing)

SELECT
    g.value, g.work_count, g.work_ns, g.path_ns, s.slack_ns, a.gain_ns,
    100.0 * a.gain_ns / nullif(w.ns, 0) AS gain_pct
FROM graph_group AS g
INNER JOIN graph_gain AS a USING (group_id)
CROSS JOIN whole AS w
LEFT JOIN least_slack AS s ON g.value = s.value
WHERE g.dimension = $by
ORDER BY a.gain_ns DESC, g.path_ns DESC, g.value
