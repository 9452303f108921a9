-- Slack and potential gain of work, by group.
-- Both come from replays. The slack is the smallest of any single event of the group. The gain assumes that all events
-- of the group take no time; gains of different groups do not add up.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   by  VARCHAR{kernel|module|class|phase|collective} = class  how work is grouped
-- Columns:
--   value       VARCHAR  kernel, module, class, phase, or collective
--   work_count  BIGINT   number of device events on all ranks
--   work_ns     BIGINT   sum of durations, ns
--   path_ns     BIGINT   part on the critical paths of all ranks, ns
--   slack_ns    BIGINT   smallest delay of one event that makes the run end later, ns
--   gain_ns     BIGINT   time saved if the group took no time, ns
--   gain_pct    DOUBLE   share of the recorded time, 0 to 100
-- View:
--   chart  form=bars title="Time saved if the group took no time" y=value x=gain_ns axis="time saved"
--          colour=vermillion tip=value,gain_ns,gain_pct,path_ns,work_ns,work_count,slack_ns
-- Invariant: slack_ns >= 0 AND gain_ns >= 0
-- Empty: device_events: no GPU work was recorded

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
