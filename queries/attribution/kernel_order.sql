-- Training phase of kernels by name and order, in traces without autograd nodes, modules, and phase ranges.
-- Kernels between a backward kernel and the next backward or optimizer kernel are backward, or recompute if they are
-- named as forward. Kernels between an optimizer kernel and the next backward kernel are forward. In traces without
-- backward or without optimizer kernels, the order counts only within one launch or step.
--
-- Kind:     table
-- Access:   private
-- Input:    trace_traits WHERE NOT is_training AND NOT has_modules AND NOT has_phases
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> device_events, piece BIGINT
--   phase     VARCHAR  forward, recompute, backward, or optimizer; NULL if unknown
--   is_named  BOOLEAN  the phase follows from the name of the kernel

WITH trace_without_phase AS (
    SELECT trace_id
    FROM trace_traits
    WHERE NOT is_training AND NOT has_modules AND NOT has_phases
),

kernel_name AS (
    SELECT DISTINCT name, class
    FROM device_events
    WHERE kind <> 'memcpy' AND device <> 'cpu' AND trace_id IN (FROM trace_without_phase)
),

name_phase AS MATERIALIZED (
    SELECT name, class, kernel_phase_name(name, class) AS phase
    FROM kernel_name
),

work AS MATERIALIZED (
    SELECT
        d.trace_id, d.event_id, d.piece, d.device, d.ts_ns, k.step, CASE
            WHEN count(*) OVER (PARTITION BY d.trace_id, k.launch_id) > 1 THEN k.launch_id
        END AS launch_id,
        n.phase AS named,
        nullif(n.phase, 'forward') AS landmark
    FROM device_events AS d
    INNER JOIN launch_link AS k USING (trace_id, event_id, piece)
    INNER JOIN name_phase AS n ON d.name = n.name AND d.class = n.class
    WHERE
        d.trace_id IN (FROM trace_without_phase)
        AND EXISTS (FROM name_phase WHERE phase IN ('backward', 'optimizer'))
),

traits AS (
    SELECT
        trace_id,
        bool_or(landmark = 'optimizer') AS has_optimizer,
        bool_or(landmark = 'backward') AS has_backward
    FROM work
    GROUP BY trace_id
    HAVING bool_or(landmark IS NOT NULL)
),

parted AS (
    SELECT
        w.*,
        t.has_optimizer AND t.has_backward AS is_cycle,
        (
            w.trace_id, w.device,
            if(is_cycle, NULL, w.launch_id),
            if(is_cycle OR w.launch_id IS NOT NULL, NULL, w.step)
        ) AS part,
        is_cycle OR coalesce(w.launch_id, w.step) IS NOT NULL AS is_one_pass
    FROM work AS w
    INNER JOIN traits AS t USING (trace_id)
),

around AS (
    SELECT
        *,
        any_value(landmark) OVER before AS landmark_before,
        any_value(landmark) OVER after AS landmark_after
    FROM parted
    WINDOW
        before AS (
            PARTITION BY part ORDER BY ts_ns DESC, event_id DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ),
        after AS (
            PARTITION BY part ORDER BY ts_ns, event_id
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        )
)

SELECT
    trace_id, event_id, piece, CASE
        WHEN landmark IS NOT NULL THEN landmark
        WHEN is_one_pass AND landmark_before = 'backward' AND landmark_after IS NOT NULL
            THEN if(named = 'forward', 'recompute', 'backward')
        WHEN landmark_after = 'backward' AND (is_one_pass OR landmark_before IS NULL)
            THEN 'forward'
        WHEN named = 'forward' THEN 'forward'
        WHEN landmark_before = 'optimizer' AND landmark_after = 'optimizer' THEN 'optimizer'
    END AS phase,
    named IS NOT NULL AND phase = named AS is_named
FROM around
ORDER BY trace_id, event_id, piece
