-- Time of a serving engine by kind of work, summed over all devices.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   serving_modules per total
-- Input:    serving_modules
-- Columns:
--   phase VARCHAR, task_group VARCHAR
--   task           VARCHAR  as in serving_modules
--   kernel_count BIGINT, kernel_ns BIGINT
--   wall_ns        BIGINT   busy or idle time, ns; overlap counts once
--   phase_wall_ns  BIGINT   busy and idle time of the phase, ns
--   phase_pct      DOUBLE   wall_ns as a share of phase_wall_ns, 0 to 100
-- Invariant: 0 <= wall_ns AND wall_ns <= phase_wall_ns
-- Invariant: 0 <= phase_pct AND phase_pct <= 100.0000001

WITH summed AS (
    SELECT
        phase, task_group, task,
        min(rowid) AS place,
        sum(kernel_count)::BIGINT AS kernel_count,
        sum(kernel_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM serving_modules
    GROUP BY phase, task_group, task
),

placed AS (
    SELECT
        *,
        sum(wall_ns) OVER (PARTITION BY phase)::BIGINT AS phase_wall_ns,
        min(place) OVER (PARTITION BY phase) AS phase_place
    FROM summed
)

SELECT
    phase, task_group, task, kernel_count, kernel_ns, wall_ns, phase_wall_ns,
    100.0 * wall_ns / phase_wall_ns AS phase_pct
FROM placed
WHERE phase_wall_ns > 0
ORDER BY phase_place, wall_ns DESC, task_group, task
