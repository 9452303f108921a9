-- Why did each device have nothing to do?
-- Every gap of the device's timeline has exactly one cause; table idle_gap says how it is found. host_bound: the CPU
-- launched too late. host_sync, allocator, data_loading: it was late because of a call that waits for the device, of
-- getting memory, of the data loader. launch_latency: launched in time, started late. dependency, comm_wait: the
-- work waited for another stream or for other ranks. graph_gap: between the kernels of one graph.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: idle_gap, device_windows, module
-- Columns:
--   rank        INTEGER  global rank
--   device      VARCHAR  number of the device, or cpu
--   cause       VARCHAR  host_sync, data_loading, allocator, host_bound, launch_latency, dependency, comm_wait,
--                        graph_gap or unknown
--   gap_count   BIGINT   gaps
--   idle_ns     BIGINT   their length, ns; adds up to the device's idle time
--   idle_pct    DOUBLE   idle_ns of the device's window, 0 to 100
--   top_op      VARCHAR  op that stands for the most of it: the one that kept the CPU busy, else the one that
--                        launched the next work (data_loading has no such one)
--   top_module  VARCHAR  path of the module that stands for the most of it
-- Invariant: idle_ns > 0 AND gap_count > 0 AND 0 < idle_pct AND idle_pct <= 100

WITH cause AS (
    SELECT
        trace_id,
        device,
        cause,
        count(*) AS gap_count,
        sum(idle_ns)::BIGINT AS idle_ns
    FROM idle_gap
    GROUP BY trace_id, device, cause
),

op AS (
    SELECT
        idle_gap.trace_id,
        idle_gap.device,
        idle_gap.cause,
        event.name
    FROM idle_gap
    INNER JOIN event
        ON idle_gap.trace_id = event.trace_id AND idle_gap.op_id = event.event_id
    GROUP BY idle_gap.trace_id, idle_gap.device, idle_gap.cause, event.name
    QUALIFY
        row_number() OVER (
            PARTITION BY idle_gap.trace_id, idle_gap.device, idle_gap.cause
            ORDER BY sum(idle_gap.idle_ns) DESC, event.name
        ) = 1
),

in_module AS (
    SELECT
        idle_gap.trace_id,
        idle_gap.device,
        idle_gap.cause,
        module.path
    FROM idle_gap
    INNER JOIN module
        ON idle_gap.trace_id = module.trace_id AND idle_gap.module_id = module.module_id
    GROUP BY idle_gap.trace_id, idle_gap.device, idle_gap.cause, module.path
    QUALIFY
        row_number() OVER (
            PARTITION BY idle_gap.trace_id, idle_gap.device, idle_gap.cause
            ORDER BY sum(idle_gap.idle_ns) DESC, module.path
        ) = 1
)

SELECT
    w.rank,
    w.device,
    cause.cause,
    cause.gap_count,
    cause.idle_ns,
    100.0 * cause.idle_ns / w.window_ns AS idle_pct,
    op.name AS top_op,
    in_module.path AS top_module
FROM cause
INNER JOIN device_windows AS w ON cause.trace_id = w.trace_id AND cause.device = w.device
LEFT JOIN op
    ON cause.trace_id = op.trace_id AND cause.device = op.device AND cause.cause = op.cause
LEFT JOIN in_module
    ON
        cause.trace_id = in_module.trace_id
        AND cause.device = in_module.device
        AND cause.cause = in_module.cause
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, cause.idle_ns DESC, cause.cause
