-- Segments of the idle gaps of each device, each with its own cause.
-- A gap is the time in which no stream of the device runs anything. native/passes/idle_gaps.c computes the rows from the input
-- rows that this statement selects. Gaps with late launches are split at borders of steps, ranges, autograd nodes, and
-- outermost spans, at long waits, and at times without host events. A segment before the first border has the context
-- of the previous work; after the last border, of the next work. The comment below describes segments between borders,
-- and the causes.
--
-- Kind:     table
-- Input:    device_events
-- Columns:
--   trace_id           INTEGER -> trace
--   gap_id             BIGINT                     gap number within the trace, from 1; segments of a gap share it
--   device             VARCHAR -> device_windows
--   start_ns           BIGINT                     start of the segment, ns
--   end_ns             BIGINT                     end of the segment, ns
--   idle_ns            BIGINT                     length, ns
--   cause              VARCHAR                    cause of the segment
--   reason             VARCHAR                    rule that decided the cause; see the list below
--   previous_event_id  BIGINT -> event.event_id   device event that ended last before the gap
--   next_event_id      BIGINT -> event.event_id   device event that ended the gap
--   next_piece         BIGINT                     piece of next_event_id
--   launch_id          BIGINT -> event.event_id   launch of the next work
--   launch_delay_ns    BIGINT                     time from the end of the launch to the start of the work, ns; negative if the work started earlier
--   pid                BIGINT                     process of the launching thread
--   tid                BIGINT                     launching thread; on cpu, the thread of the next op
--   host_ns            BIGINT                     part of the segment before the launch call returned, ns
--   busy_at_ns         BIGINT                     if the launch was late, the middle of the part of the segment before the launch call returned, ns
--   busy_tid           BIGINT                     thread that delayed the launch: the launching thread, or the thread it waited for
--   busy_op_id         BIGINT -> event.event_id   innermost op open on busy_tid at busy_at_ns; NULL if none
--   op_id              BIGINT -> record.event_id  busy_op_id, or else the op of the launch that gives the context; NULL if unknown
--   step               BIGINT -> step_ranges      step at the start of the segment (of the next work if launched in time); NULL outside steps
--   phase              VARCHAR                    phase; other between two phases
--   module_id INTEGER -> module, row_name VARCHAR
--   python_event_id    BIGINT -> event.event_id   innermost Python function outside torch and builtins at busy_at_ns on the launching thread
-- Invariant: idle_ns = end_ns - start_ns AND idle_ns > 0 AND (host_ns IS NULL OR 0 <= host_ns AND host_ns <= idle_ns)
-- Invariant: (module_id IS NULL) <> (row_name IS NULL)

-- A segment between two borders has the context of the innermost range or autograd node. Without one, its phase is
-- other if the phases of the two launches differ and the interval is long; else it has the context of the next work.
-- This statement returns numbered sections of rows, with flags. native/passes/idle_gaps.c applies these rules in order,
-- and the first match decides (limits: macros of idle_limits):
--   cause           reason                      condition
--   graph_gap       inside one graph replay     the next work is a later part of a graph replay
--   not_recorded    inside one graph replay     same, but longer than longest_hold_ns: loops and
--                                               host nodes of graphs are not recorded
--   unknown         host clock too coarse       the host clock cannot separate calls (recording)
--   unknown         launch not recorded         the launch of the next work is missing
--   not_recorded    work in between is missing  the thread launched unrecorded work in between
-- Launched in time (the call returned before or in the first half of the gap):
--   comm_wait       after communication         the previous work is communication on another
--                                               stream; gap up to longest_hold_ns
--   dependency      stream wait                 a call right before the launch made the stream wait
--   dependency      after another stream        the work was queued on a stream that was idle for
--                                               longer than the device; gap up to longest_hold_ns
--   launch_latency  usual delay                 gap up to usual_delay_factor times the median
--                                               delay of launches on the idle device, and up to
--                                               longest_hold_ns
--   unknown         unusual delay               the gap is longer
-- Launched late; only the part of the segment before the launch call returned counts:
--   unknown         nothing recorded            no thread of the process has an event
-- If the launching thread waited for another thread for more than half of that part, these rules
-- examine that other thread (thread_waits). The thread spent more than half of that part:
--   profiler        host waited                 in profiler overhead
--   data_loading    host waited                 in a data loader
--   allocator       host waited                 allocating or freeing memory, or in a launch call
--                                               while another thread did (driver lock)
--   comm_wait       host waited                 waiting for other ranks
--   host_sync       host waited                 in a synchronization or blocking copy (host_waits);
--                                               time before the gap counts too, up to
--                                               longest_hold_ns, because without the wait the
--                                               launch would have come that much earlier
--   not_recorded    host waited                 waiting for the device although it is idle: its
--                                               work was not recorded
--   unknown         waited for some thread      waiting for an unknown holder of a lock or queue
--   host_sync       launch call waited          the launch call blocked and started before the gap
-- Or none of these:
--   launch_latency  launch call was running     it started before the gap and returned within
--                                               short_call_ns
--   host_bound      host was at work            see op_id, module_id, and python_event_id
WITH work AS (
    SELECT
        d.trace_id, d.event_id, c.pid, c.tid,
        d.ts_ns AS start_ns,
        d.end_ns,
        if(d.kind = 'comm', 1, 0)
        + if(copy_of(d.class) = 'd2h', 2, 0)
        + if(a.is_inferred, 4, 0)
        + if(contains(c.name, 'Graph'), 8, 0)
        + CASE
            WHEN a.link = 'cpu' THEN 16
            WHEN r.host_clock_ns IS NOT NULL THEN 128
            WHEN a.link = 'launch' THEN 32
            WHEN a.link = 'before_window' THEN 0
            ELSE 64
        END AS flags,
        a.phase, a.row_name, d.device, d.piece, d.stream, d.correlation, a.launch_id,
        a.launch_delay_ns, a.op_id, a.module_id, a.step,
        c.ts_ns AS call_ns,
        c.end_ns AS returned_ns
    FROM device_events AS d
    LEFT JOIN attribution AS a USING (trace_id, event_id, piece)
    LEFT JOIN launch AS c ON a.trace_id = c.trace_id AND a.launch_id = c.launch_id
    LEFT JOIN recording AS r ON d.trace_id = r.trace_id
    ORDER BY d.trace_id, d.device, d.ts_ns, d.end_ns, d.stream, d.correlation, d.event_id
),

thread_wait AS (
    SELECT
        trace_id, pid,
        waiting_tid AS tid,
        start_ns, end_ns,
        tid AS event_id,
        is_backward::INTEGER AS flags
    FROM thread_waits
    ORDER BY trace_id, pid, waiting_tid, start_ns
),

missing_call AS (
    SELECT trace_id, pid, tid, ts_ns AS start_ns
    FROM launch_call
    WHERE is_missing AND is_kernel
    ORDER BY trace_id, pid, tid, ts_ns
),

span AS (
    SELECT
        e.trace_id, e.pid, e.tid,
        e.ts_ns AS start_ns,
        e.ts_ns + e.dur_ns AS end_ns,
        e.event_id, CASE
            WHEN is_op(e.category) THEN 1
            WHEN is_launch_call(e.category) THEN if(contains(e.name, 'StreamWaitEvent'), 18, 2)
            WHEN NOT is_python_call(e.category) THEN 0
            WHEN
                starts_with(e.name, '<built-in')
                OR starts_with(e.name, 'nn.Module: ')
                OR starts_with(e.name, 'torch/')
                OR contains(e.name, '/torch/')
                THEN 4
            ELSE 12
        END
        + if(m.marker_id IS NULL, 0, 32) AS flags,
        coalesce(
            m.phase,
            if(
                m.means = 'node' OR (m.means IS NOT NULL AND e.forward_thread > 0), 'backward', NULL
            )
        ) AS phase, m.row_name
    FROM event AS e
    LEFT JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
    WHERE
        is_op(e.category)
        OR is_launch_call(e.category)
        OR is_python_call(e.category)
        OR m.marker_id IS NOT NULL
    UNION ALL BY NAME
    SELECT
        trace_id, pid, tid,
        ts_ns AS start_ns,
        ts_ns + dur_ns AS end_ns,
        event_id,
        64 * list_position(
            ['data_loading', 'allocator', 'comm_wait', 'sync', 'copy', 'lock', 'unrecorded'], kind
        ) AS flags
    FROM host_waits
    UNION ALL BY NAME
    -- Profiler overhead blocks every launching thread. Time in which the driver loads or compiles
    -- kernels is not profiler overhead.
    SELECT
        trace_id,
        ts_ns AS start_ns,
        ts_ns + dur_ns AS end_ns,
        64 * if(regexp_matches(name, 'Load|Compil|Command Buffer'), 9, 8) AS flags
    FROM event
    WHERE category = 'overhead'
    UNION ALL BY NAME
    -- While a thread waits for a backward pass, its process is in that pass, even between two
    -- nodes.
    SELECT
        trace_id, pid, start_ns, end_ns,
        32 AS flags,
        'backward' AS phase
    FROM thread_waits
    WHERE is_backward
),

host AS (
    SELECT *
    FROM span
    ORDER BY trace_id, start_ns, end_ns DESC, event_id NULLS FIRST
),

step AS (
    SELECT trace_id, ts_ns AS start_ns, end_ns, step AS event_id
    FROM step_ranges
    ORDER BY trace_id, ts_ns
),

section AS (
    SELECT
        0 AS section,
        longest_hold_ns()::BIGINT AS start_ns,
        short_call_ns()::BIGINT AS end_ns,
        usual_delay_factor()::BIGINT AS event_id,
        usual_delay_count()::BIGINT AS pid,
        unrecorded_limit_ns()::BIGINT AS tid
    UNION ALL BY NAME
    SELECT 1 AS section, * FROM work
    UNION ALL BY NAME
    SELECT 2 AS section, * FROM step
    UNION ALL BY NAME
    SELECT 3 AS section, * FROM thread_wait
    UNION ALL BY NAME
    SELECT 4 AS section, * FROM missing_call
    UNION ALL BY NAME
    SELECT 5 AS section, * FROM host
)

SELECT
    trace_id, section, pid, tid, start_ns, end_ns, event_id, flags, phase, row_name, device, piece,
    stream, correlation, launch_id, launch_delay_ns, op_id, module_id, step, call_ns, returned_ns
FROM section
