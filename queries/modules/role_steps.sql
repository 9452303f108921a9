-- How long does each part of a decoder take in a step? As the mean over the devices of the run.
-- The times of roles over the steps of each device. Of devices that have steps, one without the role counts as 0.
--
-- Kind:     analysis
-- Scope:    run
-- Reduces:  roles, steps
-- Columns:
--   phase         VARCHAR  as in roles
--   role          VARCHAR  the part, as in roles
--   step_wall_ns  DOUBLE   busy time that is theirs, per step, ns
--   phase_pct     DOUBLE   wall_ns of the whole phase, busy and idle, 0 to 100
--   device_count  BIGINT   devices that the means are over
-- Invariant: 0 <= step_wall_ns AND 0 <= phase_pct AND phase_pct <= 100.0000001

WITH counted AS (
    SELECT
        rank,
        device,
        count(*) AS step_count
    FROM steps_rows
    WHERE step IS NOT NULL
    GROUP BY rank, device
),

devices AS (
    SELECT count(*) AS device_count
    FROM counted
)

SELECT
    r.phase,
    r.role,
    sum(r.wall_ns / c.step_count) / any_value(d.device_count) AS step_wall_ns,
    coalesce(sum(r.phase_pct), 0) / any_value(d.device_count) AS phase_pct,
    any_value(d.device_count) AS device_count
FROM roles_rows AS r
INNER JOIN counted AS c ON r.rank IS NOT DISTINCT FROM c.rank AND r.device = c.device
CROSS JOIN devices AS d
GROUP BY r.phase, r.role
ORDER BY min(r.rowid)
