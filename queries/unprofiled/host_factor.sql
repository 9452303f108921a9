-- With which factor on the host's own time does the replay take the step that was measured without the profiler?
-- On the line between the two factors that were tried next to it. 1 where the device alone takes as long.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   factor  DOUBLE  the factor; 4 where no factor up to that gives so long a step

WITH tried AS (
    SELECT
        r.factor + (r.next_factor - r.factor) * (m.replay + 1) / 6 AS factor,
        max(m.step_ns) AS step_ns
    FROM moment_steps('near_moment') AS m
    CROSS JOIN factor_range AS r
    GROUP BY m.replay, r.factor, r.next_factor
    UNION ALL
    SELECT unnest([factor, next_factor]), unnest([step_ns, next_ns])
    FROM factor_range
    WHERE next_factor IS NOT NULL
),

pair AS (
    SELECT
        factor, step_ns,
        lead(factor) OVER (ORDER BY factor) AS next_factor,
        lead(step_ns) OVER (ORDER BY factor) AS next_ns
    FROM tried
)

SELECT
    p.factor + (p.next_factor - p.factor) * (s.plain_ns - p.step_ns) / (p.next_ns - p.step_ns)
        AS factor
FROM pair AS p
CROSS JOIN plain_step AS s
WHERE p.step_ns < s.plain_ns AND p.next_ns >= s.plain_ns
UNION ALL
SELECT if(factor = 4, 4, 1)
FROM factor_range
WHERE next_factor IS NULL
