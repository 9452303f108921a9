-- Mean time per step of each phase over the devices: busy and idle.
-- Only time within steps counts. Recompute counts as backward, as in the tables of arXiv 2311.03687. A device that has
-- steps but does not run the phase counts as 0.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   phases per step
-- Input:    phases
-- Columns:
--   phase                   VARCHAR  phase; backward includes recompute
--   step_span_ns            DOUBLE   busy and idle time per step, ns
--   span_pct                DOUBLE   busy and idle time as a share of the device window, 0 to 100
--   step_compute_kernel_ns  DOUBLE   sum of durations of compute events per step, ns
--   device_count            BIGINT
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
