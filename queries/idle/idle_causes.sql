-- Causes of idle time per device.
-- host_bound: the CPU launched too late. host_sync, allocator, data_loading: the CPU was late because of a
-- synchronization, a memory allocation, or the data loader. launch_latency: the work was launched in time but started
-- late. dependency, comm_wait: the work waited for another stream or for other ranks. graph_gap: inside a graph replay.
-- not_recorded: launched work is missing in the trace. profiler: profiler overhead. unknown: no recorded reason. See
-- `idle_gap` for the rules.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR
--   cause       VARCHAR  host_sync, data_loading, allocator, host_bound, launch_latency, dependency, comm_wait, graph_gap, not_recorded, profiler, or unknown
--   gap_count   BIGINT   number of gaps with a segment of this cause
--   idle_ns     BIGINT   idle time, ns; adds up to the idle time of the device
--   idle_pct    DOUBLE   share of the device window, 0 to 100
--   top_op      VARCHAR  op with at least a quarter of the idle time: it kept the CPU busy, or else launched the next work
--   top_module  VARCHAR  module with at least a quarter of the idle time; layer numbers become * if several layers are involved
--   top_python  VARCHAR  Python function with at least a quarter of the idle time, as file(line): function
-- View:
--   breakdown  totals=idle_cause_totals
--   browse     key=5 menu="causes of idle time" title="Causes of idle time"
--              columns=cause,idle_ns,idle_pct,gap_count,top_op,top_module,top_python,rank,device
-- Invariant: idle_ns > 0 AND gap_count > 0 AND 0 < idle_pct AND idle_pct <= 100

WITH cause AS (
    SELECT
        trace_id, device, cause,
        count(DISTINCT gap_id) AS gap_count,
        sum(idle_ns)::BIGINT AS idle_ns
    FROM idle_gap
    GROUP BY trace_id, device, cause
),

-- Candidates are op and module together, either alone, and the Python function. NULL is a candidate
-- too: if most of the time has no op, no op explains it. If a Python function is known, ignore the
-- op that launched the next work, because the function ran before that op.
place AS (
    SELECT
        idle_gap.trace_id, idle_gap.device, idle_gap.cause, event.name AS op,
        frame.name AS python, module.path,
        coalesce(module.rollup_path, module.path) AS module_path,
        idle_gap.idle_ns
    FROM idle_gap
    LEFT JOIN event
        ON
            idle_gap.trace_id = event.trace_id
            AND idle_gap.op_id = event.event_id
            AND (idle_gap.busy_op_id IS NOT NULL OR idle_gap.python_event_id IS NULL)
    LEFT JOIN event AS frame
        ON idle_gap.trace_id = frame.trace_id AND idle_gap.python_event_id = frame.event_id
    LEFT JOIN module
        ON idle_gap.trace_id = module.trace_id AND idle_gap.module_id = module.module_id
),

summed AS (
    SELECT
        trace_id, device, cause, op, python,
        -- Roll up layers only if several are involved.
        CASE WHEN min(path) = max(path) THEN min(path) ELSE module_path END AS module_path,
        grouping(op, module_path, python) AS form,
        sum(idle_ns)::BIGINT AS idle_ns
    FROM place
    GROUP BY trace_id, device, cause, GROUPING SETS ((op, module_path), op, module_path, python)
),

largest AS (
    SELECT DISTINCT ON (trace_id, device, cause, form) *
    FROM summed
    ORDER BY trace_id, device, cause, form, idle_ns DESC, op, module_path, python
),

-- The most specific combination of op and module that covers at least a quarter of the cause.
top AS (
    SELECT
        largest.trace_id, largest.device, largest.cause,
        arg_min({op: op, path: module_path}, form) FILTER (
            form < 6 AND (op IS NOT NULL OR module_path IS NOT NULL)
        ) AS place,
        max(python) AS python
    FROM largest
    INNER JOIN cause USING (trace_id, device, cause)
    WHERE largest.idle_ns * 4::HUGEINT >= cause.idle_ns
    GROUP BY largest.trace_id, largest.device, largest.cause
)

SELECT
    w.rank, w.device, cause.cause, cause.gap_count, cause.idle_ns,
    100.0 * cause.idle_ns / w.window_ns AS idle_pct,
    top.place.op AS top_op, top.place.path AS top_module, top.python AS top_python
FROM cause
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN top USING (trace_id, device, cause)
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, cause.idle_ns DESC, cause.cause
