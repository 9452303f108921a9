-- Mean time per step of a serving engine by kind of work, over the devices.
-- Includes the sum of each group. A device that runs the phase without such work counts as 0.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   serving_modules per step
-- Input:    serving_modules
-- Columns:
--   phase VARCHAR, task_group VARCHAR
--   task          VARCHAR  as in serving_modules; (all) for the sum of the group
--   step_wall_ns  DOUBLE   busy or idle time per step, ns; overlap counts once; NULL without marked steps
--   phase_pct     DOUBLE   share of the phase, 0 to 100; NULL if the phase takes no time
--   device_count  BIGINT
-- Invariant: (step_wall_ns IS NULL OR 0 <= step_wall_ns) AND (phase_pct IS NULL OR phase_pct <= 100.0000001)

WITH shared AS (
    SELECT * RENAME (phase_pct AS share_pct) FROM serving_modules
),

summed AS (
    SELECT
        phase, task_group,
        if(grouping(task) = 1, '(all)', task) AS task,
        min(rowid) AS place,
        grouping(task) AS is_all,
        fsum(step_wall_ns ORDER BY rowid) AS step_wall_ns,
        fsum(phase_pct ORDER BY rowid) AS phase_pct
    FROM serving_modules
    GROUP BY GROUPING SETS ((phase, task_group, task), (phase, task_group))
)

SELECT
    s.phase, s.task_group, s.task,
    if(d.stepped_count > 0, coalesce(s.step_wall_ns, 0) / d.stepped_count, NULL) AS step_wall_ns,
    if(d.timed_count > 0, coalesce(s.phase_pct, 0) / d.timed_count, NULL) AS phase_pct,
    d.device_count
FROM summed AS s
INNER JOIN serving_phase_devices('shared') AS d ON s.phase = d.phase
ORDER BY
    min(s.place) OVER (PARTITION BY s.phase),
    min(s.place) OVER (PARTITION BY s.phase, s.task_group),
    s.is_all DESC,
    s.place
