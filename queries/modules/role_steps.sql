-- Mean time per step of each part of a decoder, over the devices.
-- A device that has steps but no work of the role counts as 0.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   roles per step
-- Columns:
--   phase         VARCHAR  as in roles
--   role          VARCHAR  part, as in roles
--   step_wall_ns  DOUBLE   busy time per step, ns; overlap counts once
--   phase_pct     DOUBLE   share of the busy and idle time of the phase, 0 to 100
--   device_count  BIGINT
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
