-- Exposed copies of offloaded optimizer states, gradients, or activations.
-- In the optimizer phase, all host-device copies count. Copies of at least 1 MiB also count: to the host in the forward
-- pass, and in both directions in the backward pass.
--
-- Kind:     advice
-- Scope:    run

WITH copies AS (
    SELECT
        class, phase,
        count(*) AS copy_count,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM attributed_events
    WHERE
        copy_of(class) IN ('h2d', 'd2h')
        AND (
            phase = 'optimizer'
            OR (
                bytes >= 1 << 20
                AND (
                    phase IN ('backward', 'recompute')
                    OR (phase = 'forward' AND copy_of(class) = 'd2h')
                )
            )
        )
    GROUP BY ALL
)

SELECT
    format(
        '{:,} copies of offloaded data, {} of them exposed', sum(copy_count),
        in_ms(sum(wall_ns)) || of_ranks()
    ) AS what,
    'copies of offloaded data in ' || string_agg(DISTINCT phase, ', ' ORDER BY phase) AS place,
    string_agg(
        format('class={} phase={} remove', class, phase), '; ' ORDER BY class DESC, phase
    ) AS change,
    sum(wall_ns)::BIGINT AS cost_ns,
    'Keep the offloaded data on the device if memory allows (collect --opt without O), or use '
    || 'ZeRO over more ranks. Recompute activations, or copy them on a separate stream.' AS remedy,
    'tracekit query memcpy TRACE' AS evidence
FROM copies
HAVING count(DISTINCT copy_of(class)) = 2 AND sum(wall_ns) > 0
