-- How long do copies take in each step?
-- Offloading and uploading, per iteration: mean over the steps, and the share of a step's duration. Copies belong to
-- the step whose range on the CPU holds their launch; those outside of all steps are left out. A trace without steps
-- has no rows. The row (all) is all directions together.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   memcpy
-- Columns:
--   rank            INTEGER  global rank
--   device          VARCHAR  number of the device
--   direction       VARCHAR  class: memcpy_h2d, memcpy_d2h, memcpy_d2d; (all) for all together
--   step_count      BIGINT   steps
--   copy_count      BIGINT   copies in all steps
--   kernel_ns       BIGINT   sum of their durations, ns
--   wall_ns         BIGINT   exposed: busy time of the device that belongs to them, ns
--   bytes           BIGINT   bytes copied, where known; NULL where not known for any
--   step_kernel_ns  DOUBLE   kernel_ns per step, ns
--   step_wall_ns    DOUBLE   wall_ns per step, ns
--   step_bytes      DOUBLE   bytes per step
--   step_pct        DOUBLE   kernel_ns of the duration of the steps, 0 to 100
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns

WITH step_time AS (
    SELECT trace_id, device, count(*) AS step_count, sum(span_ns)::BIGINT AS span_ns
    FROM device_steps
    GROUP BY trace_id, device
),

copied AS (
    SELECT
        e.trace_id, e.device,
        grouping(e.class) AS is_all,
        e.class,
        count(*) AS copy_count,
        sum(e.dur_ns)::BIGINT AS kernel_ns,
        sum(e.wall_ns)::BIGINT AS wall_ns,
        sum(e.bytes)::BIGINT AS bytes
    FROM attributed_events AS e
    WHERE e.kind = 'memcpy' AND e.step IS NOT NULL
    GROUP BY GROUPING SETS ((e.trace_id, e.device, e.class), (e.trace_id, e.device))
)

SELECT
    w.rank, w.device,
    if(c.is_all = 1, '(all)', c.class) AS direction,
    s.step_count, c.copy_count, c.kernel_ns, c.wall_ns, c.bytes,
    c.kernel_ns / s.step_count AS step_kernel_ns,
    c.wall_ns / s.step_count AS step_wall_ns,
    c.bytes / s.step_count AS step_bytes,
    100.0 * c.kernel_ns / nullif(s.span_ns, 0) AS step_pct
FROM copied AS c
INNER JOIN step_time AS s USING (trace_id, device)
INNER JOIN device_windows AS w USING (trace_id, device)
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, c.is_all, c.kernel_ns DESC, c.class
