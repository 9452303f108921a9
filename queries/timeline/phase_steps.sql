-- How long is each phase of a step: busy, and waiting for it? As the mean over the devices of the run.
-- What phases have within steps, over the steps of each device: work that was queued before the first step, or launched
-- between two, is in none. Recomputation is part of the backward phase here, as in the
-- paper's tables. Of devices that have steps, one without the phase counts as 0.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   phases
-- Input:    phases
-- Columns:
--   phase                   VARCHAR  as in phases, but for recompute
--   step_span_ns            DOUBLE   busy and idle time within steps, per step, ns
--   span_pct                DOUBLE   (wall_ns + idle_ns) of the device's window, 0 to 100
--   step_compute_kernel_ns  DOUBLE   sum of the durations of its compute events in steps, per step, ns
--   device_count            BIGINT   devices that the means are over
-- Invariant: 0 <= step_span_ns AND 0 <= span_pct AND span_pct <= 100.0000001

SELECT
    if(p.phase = 'recompute', 'backward', p.phase) AS phase,
    sum(p.step_ns / c.step_count) / any_value(c.device_count) AS step_span_ns,
    coalesce(sum(p.span_pct), 0) / any_value(c.device_count) AS span_pct,
    sum(p.step_compute_kernel_ns / c.step_count) / any_value(c.device_count)
        AS step_compute_kernel_ns,
    any_value(c.device_count) AS device_count
FROM phases AS p
INNER JOIN stepped_devices('steps') AS c
    ON p.rank IS NOT DISTINCT FROM c.rank AND p.device = c.device
GROUP BY if(p.phase = 'recompute', 'backward', p.phase)
ORDER BY min(p.rowid)
