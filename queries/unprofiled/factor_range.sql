-- Between which factors on the host's own time lies the one with which the replay takes the measured step?
-- Of all traces the longest step counts.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   factor       DOUBLE  the factor below
--   step_ns      DOUBLE  the step with it, ns
--   next_factor  DOUBLE  the factor above; NULL where the device alone takes as long, or no factor gives so long a step
--   next_ns      DOUBLE  the step with that, ns

WITH step AS (
    SELECT [0.2, 0.67, 1, 1.5, 4][replay + 1]::DOUBLE AS factor, max(step_ns) AS step_ns
    FROM moment_steps('factor_moment')
    GROUP BY replay
),

pair AS (
    SELECT
        factor, step_ns,
        lead(factor) OVER (ORDER BY factor) AS next_factor,
        lead(step_ns) OVER (ORDER BY factor) AS next_ns
    FROM step
)

SELECT
    p.factor, p.step_ns,
    if(p.step_ns >= 0.995 * s.plain_ns, NULL, p.next_factor) AS next_factor,
    p.next_ns
FROM pair AS p
CROSS JOIN plain_step AS s
WHERE
    (p.factor = 0.2 AND p.step_ns >= 0.995 * s.plain_ns)
    OR (p.step_ns < s.plain_ns AND coalesce(p.next_ns >= s.plain_ns, TRUE))
ORDER BY p.factor
LIMIT 1
