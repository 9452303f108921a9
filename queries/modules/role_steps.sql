-- How long does each part of a decoder take in a step? As the mean over the devices of the run.
-- What roles have within steps, over the steps of each device. Of devices that have steps, one without the role counts as 0.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   roles
-- Columns:
--   phase         VARCHAR  as in roles
--   role          VARCHAR  the part, as in roles
--   step_wall_ns  DOUBLE   busy time that is theirs, per step, ns
--   phase_pct     DOUBLE   wall_ns of the whole phase, busy and idle, 0 to 100
--   device_count  BIGINT   devices that the means are over
-- Invariant: 0 <= step_wall_ns AND 0 <= phase_pct AND phase_pct <= 100.0000001

SELECT
    r.phase, r.role,
    sum(r.wall_ns / c.step_count) / any_value(c.device_count) AS step_wall_ns,
    coalesce(sum(r.phase_pct), 0) / any_value(c.device_count) AS phase_pct,
    any_value(c.device_count) AS device_count
FROM (SELECT *, row_number() OVER () AS place FROM roles(p_steps := TRUE)) AS r
INNER JOIN stepped_devices('steps') AS c
    ON r.rank IS NOT DISTINCT FROM c.rank AND r.device = c.device
GROUP BY r.phase, r.role
ORDER BY min(r.place)
