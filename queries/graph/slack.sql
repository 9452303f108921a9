-- Slack and potential gain of work, by group.
-- Slack and gain come from replays. The slack of a group is the smallest slack of its device events. The gain is the
-- time saved if the events of the group took no time. Gains of different groups do not add up.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   by  VARCHAR{kernel|module|class|phase|collective} = class  dimension of the groups
-- Columns:
--   value       VARCHAR  kernel, module, class, phase, or collective
--   work_count  BIGINT   number of device events on all ranks
--   work_ns     BIGINT   sum of durations, ns
--   path_ns     BIGINT   time on the critical paths of all ranks, ns
--   slack_ns    BIGINT   smallest delay of a single event that makes the run end later, ns
--   gain_ns     BIGINT   time saved if the group took no time, ns
--   gain_pct    DOUBLE   gain_ns as a share of the recorded time, 0 to 100
-- View:
--   chart  form=bars title="Time saved if the group took no time" y=value x=gain_ns axis="time saved"
--          colour=vermillion tip=value,gain_ns,gain_pct,path_ns,work_ns,work_count,slack_ns
-- Invariant: slack_ns >= 0 AND gain_ns >= 0
-- Empty: device_events: no GPU work was recorded

SELECT
    g.value,
    count(DISTINCT g.span_id) AS work_count,
    sum(e.weight_ns + e.rest_ns)::BIGINT AS work_ns,
    any_value(g.path_ns) AS path_ns,
    min(t.latest_ns - t.at_ns) AS slack_ns,
    any_value(a.gain_ns) AS gain_ns,
    100.0 * any_value(a.gain_ns) / nullif((SELECT max(at_ns) FROM graph_timing), 0) AS gain_pct
FROM graph_group AS g
INNER JOIN graph_gain AS a USING (group_id)
INNER JOIN graph_edge AS e USING (edge_id)
LEFT JOIN graph_timing AS t ON e.target_node = t.node
WHERE g.dimension = $by
GROUP BY g.group_id, g.value
ORDER BY gain_ns DESC, path_ns DESC, g.value
