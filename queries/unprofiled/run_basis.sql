-- Unprofiled step time per trace, with its basis, or with the reason why it is unknown.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id     INTEGER -> trace
--   step_count   BIGINT   number of steps with device work; 0 if the window is used
--   recorded_ns BIGINT, work_ns BIGINT
--   measured_ns  BIGINT   step time measured without the profiler, ns
--   unprofiled_ns BIGINT, low_ns BIGINT, high_ns BIGINT
--   factor       DOUBLE   host slowdown factor at which the replay matches the measured step
--   basis        VARCHAR  measured or constants
--   reason       VARCHAR
--   is_replayed  BOOLEAN  replays with unprofiled_weight and this factor are valid for the unprofiled run

WITH covered AS (
    SELECT
        e.trace_id,
        sum(r.own_ns) FILTER (WHERE r.is_paired)
        / nullif(sum(r.own_ns) FILTER (WHERE r.is_paired IS NOT NULL), 0) AS share,
        median(r.ratio) AS ratio
    FROM recorded_event AS r
    INNER JOIN graph_edge AS e USING (edge_id)
    GROUP BY e.trace_id
),

estimate AS (
    SELECT
        r.trace_id, r.step_count,
        round(r.recorded_ns)::BIGINT AS recorded_ns,
        round(r.work_ns)::BIGINT AS work_ns,
        p.step_ns AS measured_ns,
        m.factor_millionths / 1e6 AS factor,
        abs(m.replayed_ns / m.recorded_ns - 1) AS replay_error,
        m.recorded_ns AS loop_step_ns,
        coalesce(c.share, 0) AS paired_share,
        c.ratio,
        if(p.step_ns IS NULL, 'constants', 'measured') AS basis,
        0.96 * least(m.low_ns, m.unprofiled_ns, m.high_ns) AS estimated_low_ns,
        1.04 * greatest(m.low_ns, m.unprofiled_ns, m.high_ns) AS estimated_high_ns,
        -- An unprofiled step is at most as long as the recorded step, and at least as long as its
        -- work. Replays of few steps can violate both.
        round(
            coalesce(p.step_ns, least(greatest(m.unprofiled_ns, r.work_ns), r.recorded_ns))
        )::BIGINT AS usual_ns,
        round(
            coalesce(
                p.low_ns, p.step_ns,
                greatest(estimated_low_ns, least(coalesce(r.work_ns, 0), usual_ns))
            )
        )::BIGINT AS least_ns,
        round(coalesce(p.high_ns, p.step_ns, estimated_high_ns))::BIGINT AS most_ns
    FROM recorded_step AS r
    INNER JOIN replayed_step AS m USING (trace_id)
    LEFT JOIN covered AS c USING (trace_id)
    LEFT JOIN measured_step AS p ON r.step_count > 0
),

judged AS (
    SELECT
        *,
        CASE
            WHEN recorded_ns IS NULL THEN 'no step has GPU work'
            WHEN replay_error > 0.05
                THEN printf(
                    'the replay of the profiled run is off by %.0f %%', 100 * replay_error
                )
            WHEN measured_ns < 0.97 * work_ns
                THEN printf(
                    'the unprofiled step (%.1f ms) is shorter than its GPU work (%.1f ms): it '
                    || 'is not from this program',
                    measured_ns / 1e6, work_ns / 1e6
                )
            WHEN
                factor NOT BETWEEN 0.67 AND 1.5
                AND measured_ns NOT BETWEEN estimated_low_ns AND estimated_high_ns
                THEN printf(
                    'the host would have to be %.2f times slower than its events imply: the '
                    || 'step is from another program, or the machine was in another state',
                    factor
                )
            WHEN
                basis = 'constants'
                AND loop_step_ns NOT BETWEEN 0.8 * recorded_ns AND 1.25 * recorded_ns
                THEN printf(
                    'no estimate: the recorded steps or the pauses between them are too unequal '
                    || '(mean step: %.2f ms; steps in a loop: %.2f ms)',
                    recorded_ns / 1e6, loop_step_ns / 1e6
                )
            WHEN
                basis = 'constants'
                AND (estimated_low_ns > recorded_ns OR estimated_high_ns < work_ns)
                THEN printf(
                    'no estimate: the replayed step (%.2f to %.2f ms) is not between its GPU '
                    || 'work (%.2f ms) and the recorded step (%.2f ms)',
                    estimated_low_ns / 1e6, estimated_high_ns / 1e6,
                    work_ns / 1e6, recorded_ns / 1e6
                )
            WHEN basis = 'constants' AND paired_share < 0.5 AND most_ns > 1.15 * least_ns
                THEN printf(
                    'no estimate: too few nested ops (%.0f %% of the host time) to derive the '
                    || 'host slowdown; pass a measured step with --unprofiled-step',
                    100 * paired_share
                )
            WHEN basis = 'constants' AND ratio > 3.4
                THEN
                    'the host was more than three times slower than usual: pass a measured step '
                    || 'with --unprofiled-step'
            WHEN basis = 'constants' AND most_ns > 2 * least_ns
                THEN 'too wide for a single figure: pass a measured step with --unprofiled-step'
        END AS reason
    FROM estimate
)

SELECT
    trace_id, step_count, recorded_ns, work_ns, measured_ns,
    if(reason IS NULL, usual_ns, NULL) AS unprofiled_ns,
    if(reason IS NULL OR starts_with(reason, 'too wide'), least_ns, NULL) AS low_ns,
    if(reason IS NULL OR starts_with(reason, 'too wide'), most_ns, NULL) AS high_ns,
    factor, basis, reason,
    -- Replays are valid even if the interval is too wide or the measured step does not fit.
    bool_and(
        reason IS NULL OR regexp_matches(reason, '^(too wide|the host would have to be)')
    ) OVER () AS is_replayed
FROM judged
ORDER BY trace_id
