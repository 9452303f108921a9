-- Copy time per step by direction, for each device.
-- A copy belongs to the step whose range on the host contains its launch. Copies launched outside steps are
-- excluded. The row (all) sums over all directions.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   memcpy per step
-- Columns:
--   rank            INTEGER
--   device          VARCHAR  device number
--   direction       VARCHAR  memcpy_h2d, memcpy_d2h, memcpy_d2d, or (all)
--   step_count      BIGINT
--   copy_count      BIGINT   number of copies in all steps
--   kernel_ns BIGINT, wall_ns BIGINT
--   bytes           BIGINT   sum of the known sizes, bytes; NULL if none is known
--   step_kernel_ns  DOUBLE   kernel_ns per step, ns
--   step_wall_ns    DOUBLE   wall_ns per step, ns
--   step_bytes      DOUBLE   bytes per step
--   step_pct        DOUBLE   kernel_ns as a share of the duration of the steps, percent; overlap counts twice
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
