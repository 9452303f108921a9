-- Why did each device have nothing to do?
-- Every segment of a gap of the device's timeline has exactly one cause; table idle_gap says how it is found. host_bound:
-- the CPU launched too late. host_sync, allocator, data_loading: it was late because of a call that waits for the device,
-- of getting memory, of the data loader. launch_latency: launched in time, started late. dependency, comm_wait: the work
-- waited for another stream or for other ranks. graph_gap: inside of one replay of a graph. not_recorded: work in between
-- was launched and is not in the file, and so the device may have been busy. profiler: the host waited for the profiler;
-- the run has no such time. unknown: nothing was recorded on the host; or work was launched in time and started later
-- than launches take, without a reason in the file; or its launch is not in the file.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank        INTEGER  global rank
--   device      VARCHAR  number of the device, or cpu
--   cause       VARCHAR  host_sync, data_loading, allocator, host_bound, launch_latency, dependency, comm_wait,
--                        graph_gap, not_recorded, profiler or unknown
--   gap_count   BIGINT   gaps of which it is the cause, or that of a segment
--   idle_ns     BIGINT   their length, ns; adds up to the device's idle time
--   idle_pct    DOUBLE   idle_ns of the device's window, 0 to 100
--   top_op      VARCHAR  op of the op and module that stand for most of it, at least a quarter: the one that kept the CPU
--                        busy, else, where no Python function is known either, the one that launched the next work
--                        (data_loading has no such one)
--   top_module  VARCHAR  path of that module; rolled up over layers where there are several
--   top_python  VARCHAR  Python function that stands for most of it, at least a quarter: file(line): function, as in
--                        idle_gaps
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

-- Where the gaps of a cause are: op and module together, the op alone, the module alone, the Python function. None is a
-- place, too: what most of the time has nothing to do with is no explanation of it. The op that launched the next work
-- is none where a Python function is known: what lay between two ops is its doing.
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
        -- Rolled up over layers only where several are meant.
        CASE WHEN min(path) = max(path) THEN min(path) ELSE module_path END AS module_path,
        grouping(op, module_path, python) AS form,
        sum(idle_ns)::BIGINT AS idle_ns
    FROM place
    GROUP BY trace_id, device, cause, GROUPING SETS ((op, module_path), op, module_path, python)
),

largest AS (
    SELECT *
    FROM summed
    QUALIFY
        row_number() OVER (
            PARTITION BY trace_id, device, cause, form
            ORDER BY idle_ns DESC, op, module_path, python
        ) = 1
),

-- Of op and module the most telling form that stands for a quarter of the cause at least.
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
