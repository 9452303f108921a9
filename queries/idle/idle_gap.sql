-- When did each device have nothing to do, and why?
-- A row is a piece of a gap (table gap_pieces): the time in which the host was in one phase, module and step, or in which
-- nothing was recorded. The cause is that of the gap: what the CPU did between the end of the previous work and the launch
-- of the next, but for the pieces in which nothing was recorded. The rules are tried in this order, and the reason says which one decided; the lengths that they
-- name stand in macro idle_limits.
--   graph_gap       inside one graph replay    the next work is part of it, and another part ran before
--   not_recorded    inside one graph replay    the same, longer than longest_hold_ns: loops and nodes of the host are not
--                                              recorded
--   unknown         launch not recorded        the launch of the next work is not in the trace, so nothing can be said
--   not_recorded    work in between is missing the launching thread launched work between the previous work and the next, in
--                                              the first half of the gap or before, that is not in the trace
-- The launch was in time (its call returned before the gap, or in the first half of it):
--   comm_wait       behind communication       of another stream, and the gap is no longer than longest_hold_ns: what
--                                              ended long ago holds nobody
--   dependency      stream was told to wait    by a call right before the launch
--   dependency      behind another stream      the work lay ready on a stream that was idle longer than the device
--                                              (no longer than longest_hold_ns, likewise)
--   launch_latency  usual delay                nothing was in between, and the gap is no longer than usual_delay_factor
--                                              times what work takes from its launch to its start on this device (median
--                                              of what was launched while the device was idle, if there were
--                                              usual_delay_count of them), nor than longest_hold_ns
--   unknown         unusual delay              nothing was in between, but the gap is longer than that
-- The launch was late.
--   unknown         nothing recorded           no thread of the process has an op, call or Python function in this piece: it
--                                              slept, waited or ran Python that was not recorded
-- A launching thread that waited for another one, for more than half of the host's part of the gap
-- (from its start until the launch call returned), is not looked at: that other thread is (table thread_waits). The launch
-- came late because for more than half of the host's part that thread was
--   profiler        host waited                for the profiler, by its own events (category overhead)
--   data_loading    host waited                in a data loader
--   allocator       host waited                getting or returning memory of the device; or the launch call was running
--                                              while another thread of the process did, for the driver locks both out
--   comm_wait       host waited                waiting for other ranks
--   host_sync       host waited                in a call that waits for the device, or in a copy that does (table
--                                              host_waits). A wait that was running when the gap began counts from its
--                                              own beginning: so much earlier the launch would have come without it
--   unknown         waited for some thread     waiting for a lock or a queue, and the trace does not show for whom
--   host_sync       launch call waited         the launch call waits itself, and began before the gap
-- or, with nothing of these,
--   launch_latency  launch call was running    it began before the gap and returned within short_call_ns
--   host_bound      host was at work           see op_id and module_id
-- A piece has the phase, module and step that the host was in at that time; one whose launch was in time, those of the
-- work that ended the gap.
--
-- Kind:     table
-- Input:    device_gaps
-- Columns:
--   trace_id           INTEGER -> trace           the trace
--   gap_id             BIGINT                     number of the gap in the trace, from 1; pieces of a gap share it
--   device             VARCHAR -> device_windows  number of the device, or cpu
--   start_ns           BIGINT                     start of the piece; of the first, the end of the previous work, ns
--   end_ns             BIGINT                     end of the piece; of the last, the start of the next work, ns
--   idle_ns            BIGINT                     between the two, ns
--   cause              VARCHAR                    cause, as above
--   reason             VARCHAR                    what decided, as above
--   previous_event_id  BIGINT -> event.event_id   the device event that ended last before the gap
--   next_event_id      BIGINT -> event.event_id   the device event that ended the gap
--   next_piece         BIGINT                     its piece, as in table device_events
--   launch_id          BIGINT -> event.event_id   the call that launched it
--   launch_delay_ns    BIGINT                     from the end of that call to the start of the work, ns; negative if it began before
--   pid                BIGINT                     process of the launching thread
--   tid                BIGINT                     the launching thread; on cpu, that of the next op
--   host_ns            BIGINT                     part of the piece that had passed when the launch call returned, ns
--   busy_at_ns         BIGINT                     middle of the host's part of the gap where the launch was late, ns
--   busy_tid           BIGINT                     the thread that was looked at: the launching one, or the one that it waited for
--   busy_op_id         BIGINT -> event.event_id   innermost op that was open then on that thread; NULL if none was
--   op_id              BIGINT -> record.event_id   that op in the piece that has the middle, else the op of the launch whose context the
--                                                 piece has; that op alone for data_loading, NULL where nothing was recorded
--   step               BIGINT -> step_ranges      number of the step, as above; NULL outside of steps
--   phase              VARCHAR                    phase, as above; other where the host was between two phases
--   module_id          INTEGER -> module          module, as above
--   row_name           VARCHAR                    row of modules where there is none
--   python_event_id    BIGINT -> event.event_id   innermost Python function, neither torch's own nor built in, that was open at
--                                                 busy_at_ns on the launching thread; NULL if none was
-- Invariant: idle_ns = end_ns - start_ns AND idle_ns > 0 AND (host_ns IS NULL OR 0 <= host_ns AND host_ns <= idle_ns)

WITH silent AS (
    SELECT
        trace_id, gap_id,
        sum(end_ns - start_ns) FILTER (is_unrecorded) AS silent_ns,
        arg_max(start_ns + host_ns // 2, host_ns) FILTER (NOT is_unrecorded) AS middle_ns
    FROM gap_pieces
    GROUP BY trace_id, gap_id
    HAVING bool_or(is_unrecorded)
),

-- The last piece of a gap stands for it. Of the host's part counts that in which something is recorded.
timed_gap AS MATERIALIZED (
    SELECT
        g.rowid AS id, g.*,
        p.launch_id, p.launch_delay_ns, p.link, p.pid, p.tid, p.call_ns, p.returned_ns,
        p.is_late, p.is_graph,
        p.start_ns + p.host_ns - g.start_ns AS gap_host_ns,
        gap_host_ns - coalesce(s.silent_ns, 0) AS recorded_ns,
        coalesce(s.middle_ns, g.start_ns + gap_host_ns // 2) AS middle_ns,
        thread.rowid AS thread,
        launch_wait.event_id IS NOT NULL AS is_waiting_call
    FROM device_gaps AS g
    INNER JOIN gap_pieces AS p
        ON g.trace_id = p.trace_id AND g.gap_id = p.gap_id AND g.end_ns = p.end_ns
    LEFT JOIN silent AS s ON g.trace_id = s.trace_id AND g.gap_id = s.gap_id
    LEFT JOIN thread ON g.trace_id = thread.trace_id AND p.pid = thread.pid AND p.tid = thread.tid
    LEFT JOIN host_waits AS launch_wait
        ON
            p.trace_id = launch_wait.trace_id
            AND p.launch_id = launch_wait.event_id
            AND launch_wait.kind IN ('sync', 'copy')
),

-- How long work may start late without a reason.
usual_delay AS (
    SELECT
        trace_id, device,
        least(
            (usual_delay_factor() * median(end_ns - call_ns))::BIGINT, longest_hold_ns()
        ) AS limit_ns
    FROM timed_gap
    WHERE call_ns >= start_ns
    GROUP BY trace_id, device
    HAVING count(*) >= usual_delay_count()
),

first_launch AS (
    SELECT trace_id, pid, tid, ts_ns, min(launch_id) AS launch_id
    FROM launch
    GROUP BY ALL
),

late_gap AS MATERIALIZED (
    SELECT
        gap.id, gap.trace_id,
        coalesce(other.rowid, gap.thread) AS thread,
        gap.thread AS launching_thread,
        coalesce(other.tid, gap.tid) AS tid,
        if(other.tid IS NULL, gap.start_ns, greatest(gap.start_ns, wait.start_ns)) AS start_ns,
        if(other.tid IS NULL, gap.late_ns, least(gap.late_ns, wait.end_ns)) AS end_ns,
        gap.middle_ns
    FROM (
        SELECT
            *,
            start_ns + gap_host_ns AS late_ns
        FROM timed_gap
        WHERE is_late
    ) AS gap
    ASOF LEFT JOIN thread_waits AS wait
        ON
            gap.trace_id = wait.trace_id
            AND gap.pid = wait.pid
            AND gap.tid = wait.waiting_tid
            AND gap.middle_ns >= wait.start_ns
    LEFT JOIN thread AS other
        ON
            wait.trace_id = other.trace_id
            AND wait.pid = other.pid
            AND wait.tid = other.tid
            AND common_ns(gap.start_ns, gap.late_ns, wait.start_ns, wait.end_ns) * 2
            > gap.late_ns - gap.start_ns
),

process AS (
    SELECT trace_id, pid, -1 - min(rowid) AS number
    FROM thread
    GROUP BY trace_id, pid
),

late_thread AS (
    SELECT DISTINCT trace_id, thread
    FROM timed_gap
    WHERE is_late
),

-- The driver's lock is that of the process, whose number is below those of threads.
host_wait AS (
    SELECT
        thread.rowid AS thread, wait.kind,
        wait_key(thread.rowid, wait.kind) AS part,
        wait.ts_ns AS start_ns,
        wait.ts_ns + wait.dur_ns AS end_ns
    FROM host_waits AS wait
    INNER JOIN thread USING (trace_id, pid, tid)
    UNION ALL
    SELECT
        process.number AS thread, wait.kind,
        wait_key(process.number, wait.kind) AS part,
        wait.ts_ns AS start_ns,
        wait.ts_ns + wait.dur_ns AS end_ns
    FROM host_waits AS wait
    INNER JOIN process USING (trace_id, pid)
    WHERE wait.kind = 'allocator'
    UNION ALL
    -- The profiler holds up every thread that launches; what drivers load and compile is not its own.
    SELECT
        late.thread, 'profiler' AS kind,
        wait_key(late.thread, 'profiler') AS part,
        own.ts_ns AS start_ns,
        own.ts_ns + own.dur_ns AS end_ns
    FROM event AS own
    INNER JOIN late_thread AS late ON own.trace_id = late.trace_id
    WHERE own.category = 'overhead' AND NOT regexp_matches(own.name, 'Load|Compil|Command Buffer')
),

wait_kind AS (
    SELECT DISTINCT thread, kind, part
    FROM host_wait
),

host_part AS (
    SELECT id, thread, start_ns, end_ns
    FROM late_gap
    UNION ALL
    SELECT
        gap.id,
        process.number AS thread,
        greatest(gap.call_ns, gap.start_ns) AS start_ns,
        gap.start_ns + gap.gap_host_ns AS end_ns
    FROM timed_gap AS gap
    INNER JOIN process USING (trace_id, pid)
    WHERE gap.is_late AND gap.link = 'launch'
),

-- The host's part of a gap, for each kind of wait that its thread ever has.
looked_at AS (
    SELECT wait_key(id, kind) AS id, part, start_ns, end_ns
    FROM host_part
    INNER JOIN wait_kind USING (thread)
),

waited AS (
    SELECT id_of_wait_key(id) AS id, kind_of_wait_key(id) AS kind, overlap_ns, ahead_ns
    FROM interval_overlap('looked_at', 'host_wait')
),

-- How long it waited then, and how long a wait for the device had been running when the gap began.
waiting_time AS (
    SELECT
        id,
        sum(overlap_ns) FILTER (kind = 'data_loading') AS data_loading_ns,
        sum(overlap_ns) FILTER (kind = 'allocator') AS allocator_ns,
        sum(overlap_ns) FILTER (kind = 'comm_wait') AS comm_wait_ns,
        sum(overlap_ns + coalesce(ahead_ns, 0)) FILTER (kind = 'sync') AS sync_ns,
        sum(overlap_ns) FILTER (kind = 'copy') AS copy_ns,
        sum(overlap_ns) FILTER (kind = 'lock') AS lock_ns,
        sum(overlap_ns) FILTER (kind = 'profiler') AS profiler_ns,
        max(ahead_ns) FILTER (kind = 'copy') AS copy_ahead_ns
    FROM waited
    GROUP BY id
),

missing_call AS (
    SELECT trace_id, pid, tid, ts_ns
    FROM launch_call
    WHERE is_missing AND is_kernel
),

-- The first kernel or graph that the thread launched behind the previous work and that is not in the trace.
missing_work AS (
    SELECT gap.id
    FROM timed_gap AS gap
    INNER JOIN launch_link AS previous
        ON
            gap.trace_id = previous.trace_id
            AND gap.previous_event_id = previous.event_id
            AND previous.piece = 0
    ASOF INNER JOIN missing_call AS missing
        ON
            gap.trace_id = missing.trace_id
            AND gap.pid = missing.pid
            AND gap.tid = missing.tid
            AND previous.launch_ts_ns < missing.ts_ns
    WHERE
        missing.ts_ns < gap.call_ns
        AND (missing.ts_ns - gap.start_ns) * 2 <= gap.end_ns - gap.start_ns
),

stream_wait AS (
    SELECT trace_id, pid, tid, ts_ns
    FROM event
    WHERE is_launch_call(category) AND name LIKE '%StreamWaitEvent%'
),

-- The first launch behind a call that makes a stream wait.
ordered_launch AS (
    SELECT DISTINCT first_launch.trace_id, first_launch.launch_id
    FROM stream_wait
    ASOF INNER JOIN first_launch
        ON
            stream_wait.trace_id = first_launch.trace_id
            AND stream_wait.pid = first_launch.pid
            AND stream_wait.tid = first_launch.tid
            AND stream_wait.ts_ns <= first_launch.ts_ns
),

-- Ops are looked for on the thread that was at work, Python functions on the one that launched: their parts and gaps
-- have numbers below 0.
gap_middle AS (
    SELECT
        unnest([id, -1 - id]) AS id,
        unnest([thread, -1 - launching_thread]) AS part,
        middle_ns AS at_ns
    FROM late_gap
),

busy_span AS (
    SELECT
        if(is_op(event.category), thread.rowid, -1 - thread.rowid) AS part,
        event.event_id AS id, event.ts_ns AS start_ns,
        event.ts_ns + event.dur_ns AS end_ns
    FROM events_near('late_gap') AS event
    INNER JOIN thread USING (trace_id, pid, tid)
    WHERE
        is_op(event.category)
        OR (
            is_python_call(event.category)
            AND NOT starts_with(event.name, '<built-in')
            AND NOT starts_with(event.name, 'nn.Module: ')
            AND NOT starts_with(event.name, 'torch/')
            AND NOT contains(event.name, '/torch/')
        )
),

busy AS MATERIALIZED (SELECT * FROM interval_innermost('gap_middle', 'busy_span')),

judged_gap AS (
    SELECT
        timed_gap.* EXCLUDE (middle_ns),
        late_gap.middle_ns AS busy_at_ns, late_gap.tid AS busy_tid,
        busy_op.span_id AS busy_op_id, busy_function.span_id AS python_event_id,
        coalesce(waiting_time.data_loading_ns, 0) * 2 > timed_gap.recorded_ns AS is_data_loading,
        coalesce(waiting_time.allocator_ns, 0) * 2 > timed_gap.recorded_ns AS is_allocator,
        coalesce(waiting_time.comm_wait_ns, 0) * 2 > timed_gap.recorded_ns AS is_comm_wait,
        (
            coalesce(waiting_time.sync_ns, 0)
            + coalesce(waiting_time.copy_ns, 0)
            + if(copy_of(previous_class) = 'd2h', coalesce(waiting_time.copy_ahead_ns, 0), 0)
        ) * 2 > timed_gap.recorded_ns AS is_sync,
        coalesce(waiting_time.lock_ns, 0) * 2 > timed_gap.recorded_ns AS is_locked,
        coalesce(waiting_time.profiler_ns, 0) * 2 > timed_gap.recorded_ns AS is_profiler,
        missing_work.id IS NOT NULL AS lacks_work,
        ordered_launch.launch_id IS NOT NULL AS is_ordered,
        timed_gap.end_ns - timed_gap.start_ns <= longest_hold_ns() AS is_short,
        timed_gap.end_ns - timed_gap.start_ns <= coalesce(usual_delay.limit_ns, longest_hold_ns())
            AS is_usual_delay
    FROM timed_gap
    LEFT JOIN late_gap USING (id)
    LEFT JOIN waiting_time USING (id)
    LEFT JOIN missing_work USING (id)
    LEFT JOIN ordered_launch
        ON
            timed_gap.trace_id = ordered_launch.trace_id
            AND timed_gap.launch_id = ordered_launch.launch_id
    LEFT JOIN busy AS busy_op USING (id)
    LEFT JOIN busy AS busy_function ON -1 - timed_gap.id = busy_function.id
    LEFT JOIN usual_delay
        ON
            timed_gap.trace_id = usual_delay.trace_id
            AND timed_gap.device = usual_delay.device
),

explained_gap AS (
    SELECT
        *,
        CASE
            WHEN is_inside_launch AND (is_graph OR launch_id IS NULL)
                THEN
                    {
                        cause: if(is_short, 'graph_gap', 'not_recorded'),
                        reason: 'inside one graph replay'
                    }
            WHEN link IS NULL OR link = 'missing_launch'
                THEN {cause: 'unknown', reason: 'launch not recorded'}
            WHEN lacks_work
                THEN {cause: 'not_recorded', reason: 'work in between is missing'}
            WHEN NOT is_late AND previous_kind = 'comm' AND is_other_stream AND is_short
                THEN {cause: 'comm_wait', reason: 'behind communication'}
            WHEN NOT is_late AND is_ordered
                THEN {cause: 'dependency', reason: 'stream was told to wait'}
            WHEN
                NOT is_late
                AND is_other_stream
                AND is_stream_idle
                AND is_short
                AND coalesce(returned_ns < start_ns, TRUE)
                THEN {cause: 'dependency', reason: 'behind another stream'}
            WHEN NOT is_late AND is_usual_delay
                THEN {cause: 'launch_latency', reason: 'usual delay'}
            WHEN NOT is_late THEN {cause: 'unknown', reason: 'unusual delay'}
            WHEN is_profiler THEN {cause: 'profiler', reason: 'host waited'}
            WHEN is_data_loading THEN {cause: 'data_loading', reason: 'host waited'}
            WHEN is_allocator THEN {cause: 'allocator', reason: 'host waited'}
            WHEN is_comm_wait THEN {cause: 'comm_wait', reason: 'host waited'}
            WHEN is_sync THEN {cause: 'host_sync', reason: 'host waited'}
            WHEN is_locked THEN {cause: 'unknown', reason: 'waited for some thread'}
            WHEN is_waiting_call AND call_ns <= start_ns
                THEN {cause: 'host_sync', reason: 'launch call waited'}
            WHEN recorded_ns < short_call_ns() AND call_ns <= start_ns
                THEN {cause: 'launch_latency', reason: 'launch call was running'}
            ELSE {cause: 'host_bound', reason: 'host was at work'}
        END AS decided
    FROM judged_gap
)

SELECT
    p.trace_id, p.gap_id, g.device, p.start_ns, p.end_ns,
    p.end_ns - p.start_ns AS idle_ns,
    if(p.is_unrecorded AND NOT g.lacks_work, 'unknown', g.decided.cause) AS cause,
    if(p.is_unrecorded AND NOT g.lacks_work, 'nothing recorded', g.decided.reason) AS reason,
    g.previous_event_id, g.next_event_id, g.next_piece, p.launch_id, p.launch_delay_ns, p.pid,
    p.tid, p.host_ns,
    if(p.is_unrecorded, NULL, g.busy_at_ns) AS busy_at_ns,
    if(p.is_unrecorded, NULL, g.busy_tid) AS busy_tid,
    if(p.is_unrecorded, NULL, g.busy_op_id) AS busy_op_id, CASE
        WHEN p.is_unrecorded THEN NULL
        WHEN g.decided.cause = 'data_loading' THEN g.busy_op_id
        WHEN g.busy_at_ns BETWEEN p.start_ns AND p.end_ns THEN coalesce(g.busy_op_id, p.op_id)
        ELSE p.op_id
    END AS op_id, p.step, p.phase, p.module_id, p.row_name,
    if(p.is_unrecorded, NULL, g.python_event_id) AS python_event_id
FROM gap_pieces AS p
INNER JOIN explained_gap AS g USING (trace_id, gap_id)
ORDER BY p.trace_id, p.gap_id, p.start_ns
