-- Which kinds of work was the time of a serving engine's devices spent on, all together?
-- The sums of serving_modules over all devices; phases without any time are left out.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   serving_modules
-- Input:    serving_modules
-- Columns:
--   phase          VARCHAR  as in serving_modules
--   task_group     VARCHAR  computation, communication or rest
--   task           VARCHAR  as in serving_modules
--   kernel_count   BIGINT   device events
--   kernel_ns      BIGINT   sum of their durations, ns
--   wall_ns        BIGINT   time of the devices that is theirs, busy or, in row idle, idle, ns
--   phase_wall_ns  BIGINT   that of the whole phase, ns
--   phase_pct      DOUBLE   wall_ns of phase_wall_ns, 0 to 100
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
