-- Segments of the idle gaps of each device, each with its own cause.
-- A gap is a time in which no stream of the device runs anything, between the end of the previous work and the start of
-- the next. native/idle_gaps.c makes the rows of those that this statement reads, in one walk over the work of the devices
-- and what each thread of the host is in; its function decide holds the rules below.
-- A gap whose launch came late is split where the host leaves one context and enters another: at the end of the outermost
-- span around the previous launch of the device that does not hold the next one, at the start of the outermost span around
-- the next launch that does not hold the previous one, at the borders of ranges and autograd nodes between the two, and of
-- steps. It is split, too, at stretches of at least unrecorded_limit_ns (macros idle_limits) in which no thread of the
-- process has an op, call, or Python function, and where a wait of at least longest_hold_ns begins or ends. A segment
-- before the first border has the phase and module of the previous work, one after the second those of the next. Between
-- the two it has the phase of the innermost range or node. Where none is open, it has phase other if the two launches have
-- different phases or steps and the stretch is at least unrecorded_limit_ns long, or if nothing is recorded and one of the
-- two phases is inferred; else the phase of the next work. A gap whose launch was in time is one segment, with the context
-- of the next work.
-- The first of these rules that holds decides, and the reason says which one did:
--   graph_gap       inside one graph replay    the next work is part of the replay, and another part ran before the gap
--   not_recorded    inside one graph replay    the same, and the gap is longer than longest_hold_ns: loops and host nodes
--                                              of graphs are not recorded
--   unknown         launch not recorded        the launch of the next work is not in the trace
--   unknown         host clock too coarse      the clock of the host does not tell calls apart (table recording)
--   not_recorded    work in between is missing the launching thread launched work between the previous work and the next, in
--                                              the first half of the gap or before, that is not in the trace
-- The launch was in time (its call returned before the gap, or in the first half of it):
--   comm_wait       behind communication       of another stream, and the gap is no longer than longest_hold_ns: what
--                                              ended earlier delays nothing
--   dependency      stream was told to wait    by a call right before the launch
--   dependency      behind another stream      the work was queued on a stream that was idle longer than the device
--                                              (and the gap is no longer than longest_hold_ns, likewise)
--   launch_latency  usual delay                the gap is no longer than usual_delay_factor times what work takes from its
--                                              launch to its start on this device (median of what was launched while the
--                                              device was idle, of at least usual_delay_count), nor than longest_hold_ns
--   unknown         unusual delay              the gap is longer than that
-- The launch was late. What counts is the host's part of the segment, which ends when the launch call returns:
--   unknown         nothing recorded           no thread of the process has an op, call, or Python function in the segment
-- A launching thread that waited for another one for more than half of the host's part is not looked at, but that other
-- thread is (table thread_waits). For more than half of the host's part that thread was
--   profiler        host waited                waiting for the profiler, by its own events (category overhead)
--   data_loading    host waited                in a data loader
--   allocator       host waited                allocating or freeing device memory; or the launch call was running while
--                                              another thread of the process did, because the driver locks both out
--   comm_wait       host waited                waiting for other ranks
--   host_sync       host waited                in a call that waits for the device, or in a copy that does (table
--                                              host_waits). A wait that was running when the gap began counts longer by the
--                                              time that it had been running, up to longest_hold_ns: so much earlier the
--                                              launch would have come without it
--   not_recorded    host waited                waiting for the device, which was idle: for work that is not in the trace
--   unknown         waited for some thread     waiting for a lock or a queue, and the trace does not show for whom
--   host_sync       launch call waited         the launch call waits itself, and began before the gap
-- or, with nothing of these,
--   launch_latency  launch call was running    it began before the gap and returned within short_call_ns
--   host_bound      host was at work           see op_id, module_id, and python_event_id
--
-- Kind:     table
-- Input:    device_events
-- Columns:
--   trace_id           INTEGER -> trace           the trace
--   gap_id             BIGINT                     number of the gap in the trace, from 1; segments of a gap share it
--   device             VARCHAR -> device_windows  number of the device, or cpu
--   start_ns           BIGINT                     start of the segment; of the first, the end of the previous work, ns
--   end_ns             BIGINT                     end of the segment; of the last, the start of the next work, ns
--   idle_ns            BIGINT                     between the two, ns
--   cause              VARCHAR                    cause of the segment, as above
--   reason             VARCHAR                    what decided, as above
--   previous_event_id  BIGINT -> event.event_id   the device event that ended last before the gap
--   next_event_id      BIGINT -> event.event_id   the device event that ended the gap
--   next_piece         BIGINT                     its piece, as in table device_events
--   launch_id          BIGINT -> event.event_id   the call that launched it
--   launch_delay_ns    BIGINT                     from the end of that call to the start of the work, ns; negative if it began before
--   pid                BIGINT                     process of the launching thread
--   tid                BIGINT                     the launching thread; on cpu, that of the next op
--   host_ns            BIGINT                     part of the segment that had passed when the launch call returned, ns
--   busy_at_ns         BIGINT                     middle of that part where the launch was late, ns
--   busy_tid           BIGINT                     the thread that was looked at: the launching one, or the one that it waited for
--   busy_op_id         BIGINT -> event.event_id   innermost op that was open then on that thread; NULL if none was
--   op_id              BIGINT -> record.event_id  that op, else the op of the launch whose context the segment has; that op alone
--                                                 for data_loading, NULL where nothing was recorded
--   step               BIGINT -> step_ranges      number of the step whose range holds the start of the segment, NULL outside of
--                                                 steps; of a gap whose launch was in time, that of the next work
--   phase              VARCHAR                    phase, as above; other where the host was between two phases
--   module_id          INTEGER -> module          module, as above
--   row_name           VARCHAR                    row of modules where there is none
--   python_event_id    BIGINT -> event.event_id   innermost Python function, neither torch's own nor built in, that was open at
--                                                 busy_at_ns on the launching thread; NULL if none was
-- Invariant: idle_ns = end_ns - start_ns AND idle_ns > 0 AND (host_ns IS NULL OR 0 <= host_ns AND host_ns <= idle_ns)
-- Invariant: (module_id IS NULL) <> (row_name IS NULL)

-- Sections of rows for native/idle_gaps.c, which knows them and their flags by number.
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
    -- The profiler holds up every thread that launches; what drivers load and compile is not its own.
    SELECT
        trace_id,
        ts_ns AS start_ns,
        ts_ns + dur_ns AS end_ns,
        64 * if(regexp_matches(name, 'Load|Compil|Command Buffer'), 9, 8) AS flags
    FROM event
    WHERE category = 'overhead'
    UNION ALL BY NAME
    -- While a thread waits for the nodes of a backward pass, its process is in that, between two nodes too.
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
