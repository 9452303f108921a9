-- When did each device have nothing to do, and why?
-- A row is a gap of table device_gaps. The cause is what the CPU did between the end of the previous work and the
-- launch of the next. The rules are tried in this order, and the reason says which one decided; the lengths that they
-- name stand in macro idle_limits.
--   graph_gap       inside one graph replay    the next work is part of it, and another part ran before
--   unknown         launch not recorded        the launch of the next work is not in the trace, so nothing can be said
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
-- The launch was late. A launching thread that waited for another one, for more than half of the host's part of the gap
-- (from its start until the launch call returned), is not looked at: that other thread is. Whoever calls a backward pass
-- waits for the thread that runs its nodes, from the first to the last, or as long as the stack shows run_backward; else
-- the thread of the forward ops is the one that called. And the thread of the nodes waits between two passes for the
-- one that calls them, if it is always the same. Where the stack shows that a thread waits for a lock or a queue, it waits
-- for the thread that gave something back last: in the last tenth of the wait, or in its last longest_hold_ns. The launch
-- came late because for more than half of the host's part that thread was
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
-- A gap has the phase and the module of the work that ended it: the device waited for that. Where its launch waited for a
-- backward pass, it has phase backward and no module.
--
-- Kind:     table
-- Requires: event_category, thread, device_gaps, attribution, surroundings, launch, host_waits, interval_innermost,
--           interval_common, interval_overlap, idle_limits, wait_key, host_wait_names
-- Columns:
--   trace_id           INTEGER -> trace           the trace
--   gap_id             BIGINT                     number of the gap in the trace, from 1
--   device             VARCHAR -> device_windows  number of the device, or cpu
--   start_ns           BIGINT                     end of the previous work, ns
--   end_ns             BIGINT                     start of the next work, ns
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
--   host_ns            BIGINT                     part of the gap that had passed when the launch call returned, ns
--   busy_at_ns         BIGINT                     middle of the host's part where the launch was late, ns
--   busy_tid           BIGINT                     the thread that was looked at: the launching one, or the one that it waited for
--   busy_op_id         BIGINT -> event.event_id   innermost op that was open then on that thread; NULL if none was
--   op_id              BIGINT -> event.event_id   that op, else the op that launched the next work; but for data_loading, and where
--                                                 its launch waited for a backward pass
--   phase              VARCHAR                    phase of the next work, or backward, as above
--   module_id          INTEGER -> module          module of the next work, or NULL, as above
-- Invariant: idle_ns = end_ns - start_ns AND idle_ns > 0 AND (host_ns IS NULL OR 0 <= host_ns AND host_ns <= idle_ns)

-- On cpu an op launches its pieces, each when it starts.
WITH gap AS (
    SELECT
        found.*,
        found.rowid AS id, placed.launch_id, placed.launch_delay_ns, placed.link, placed.op_id,
        placed.phase, placed.module_id, launch.pid, launch.tid,
        coalesce(launch.name LIKE '%Graph%', FALSE) AS is_graph,
        launch_wait.event_id IS NOT NULL AS is_waiting_call,
        CASE WHEN placed.link = 'cpu' THEN found.end_ns ELSE launch.ts_ns END AS call_ns,
        CASE WHEN placed.link = 'cpu' THEN found.end_ns ELSE launch.end_ns END AS returned_ns
    FROM device_gaps AS found
    LEFT JOIN attribution AS placed
        ON
            found.trace_id = placed.trace_id
            AND found.next_event_id = placed.event_id
            AND found.next_piece = placed.piece
    LEFT JOIN launch
        ON placed.trace_id = launch.trace_id AND placed.launch_id = launch.launch_id
    LEFT JOIN host_waits AS launch_wait
        ON
            placed.trace_id = launch_wait.trace_id
            AND placed.launch_id = launch_wait.event_id
            AND launch_wait.kind IN ('sync', 'copy')
),

timed_gap AS MATERIALIZED (
    SELECT
        gap.*,
        thread.rowid AS thread, CASE
            WHEN returned_ns IS NOT NULL THEN greatest(least(returned_ns, end_ns) - start_ns, 0)
        END AS host_ns,
        coalesce(
            returned_ns > start_ns
            AND (least(returned_ns, end_ns) - start_ns) * 2 >= end_ns - start_ns,
            FALSE
        ) AS is_late
    FROM gap
    LEFT JOIN thread
        ON gap.trace_id = thread.trace_id AND gap.pid = thread.pid AND gap.tid = thread.tid
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
    GROUP BY trace_id, pid, tid, ts_ns
),

node AS (
    SELECT trace_id, node_id, max(forward_op_id) AS forward_op_id
    FROM surroundings
    WHERE node_id IS NOT NULL
    GROUP BY trace_id, node_id
),

backward_call AS (
    SELECT trace_id, pid, ts_ns, arg_max(tid, (dur_ns, tid)) AS tid, ts_ns + max(dur_ns) AS end_ns
    FROM event
    WHERE is_python_call(category) AND contains(name, 'run_backward')
    GROUP BY trace_id, pid, ts_ns
),

called_node AS (
    SELECT
        node.trace_id, span.pid, span.tid,
        if(called.end_ns > span.ts_ns, called.tid, forward_op.tid) AS caller_tid,
        if(called.end_ns > span.ts_ns, called.ts_ns, span.ts_ns) AS start_ns,
        if(called.end_ns > span.ts_ns, called.end_ns, span.ts_ns + span.dur_ns) AS end_ns
    FROM node
    INNER JOIN event AS span ON node.trace_id = span.trace_id AND node.node_id = span.event_id
    LEFT JOIN event AS forward_op
        ON
            node.trace_id = forward_op.trace_id
            AND node.forward_op_id = forward_op.event_id
            AND span.pid = forward_op.pid
    ASOF LEFT JOIN backward_call AS called
        ON span.trace_id = called.trace_id AND span.pid = called.pid AND span.ts_ns >= called.ts_ns
),

-- Nodes without a forward op in the trace were called by whoever called the others of their thread.
pass_node AS (
    SELECT
        * REPLACE (if(first_tid = last_tid, first_tid, caller_tid) AS caller_tid),
        first_tid = last_tid AS has_one_caller
    FROM (
        SELECT
            *,
            min(caller_tid) OVER (PARTITION BY trace_id, pid, tid) AS first_tid,
            max(caller_tid) OVER (PARTITION BY trace_id, pid, tid) AS last_tid
        FROM called_node
    ) AS node
),

-- What runs on another thread between two launches of the one that called is one pass. Where several threads run its
-- nodes, the last one is waited for.
backward_pass AS (
    SELECT
        node.trace_id, node.pid, node.caller_tid,
        arg_max(node.tid, (node.end_ns, node.tid)) AS tid,
        min(node.start_ns) AS start_ns,
        max(node.end_ns) AS end_ns,
        bool_and(node.has_one_caller) AS has_one_caller
    FROM pass_node AS node
    ASOF LEFT JOIN first_launch
        ON
            node.trace_id = first_launch.trace_id
            AND node.pid = first_launch.pid
            AND node.caller_tid = first_launch.tid
            AND node.start_ns >= first_launch.ts_ns
    WHERE node.caller_tid <> node.tid
    GROUP BY node.trace_id, node.pid, node.caller_tid, first_launch.ts_ns
),

hand_over AS (
    SELECT trace_id, pid, ts_ns, max(tid) AS tid
    FROM event
    WHERE host_range_hands_over(category, name)
    GROUP BY trace_id, pid, ts_ns
),

loading AS (
    SELECT trace_id, pid, tid, ts_ns, ts_ns + dur_ns AS end_ns
    FROM host_waits
    WHERE kind = 'data_loading'
),

-- What a data loader waits for is data.
handed_over AS (
    SELECT
        lock_wait.trace_id, lock_wait.pid, lock_wait.tid AS waiting_tid, hand_over.tid,
        lock_wait.ts_ns AS start_ns,
        lock_wait.ts_ns + lock_wait.dur_ns AS end_ns
    FROM host_waits AS lock_wait
    ASOF INNER JOIN hand_over
        ON
            lock_wait.trace_id = hand_over.trace_id
            AND lock_wait.pid = hand_over.pid
            AND lock_wait.ts_ns + lock_wait.dur_ns >= hand_over.ts_ns
    ASOF LEFT JOIN loading
        ON
            lock_wait.trace_id = loading.trace_id
            AND lock_wait.pid = loading.pid
            AND lock_wait.tid = loading.tid
            AND lock_wait.ts_ns >= loading.ts_ns
    WHERE
        lock_wait.kind = 'lock'
        AND lock_wait.tid <> hand_over.tid
        AND hand_over.ts_ns > lock_wait.ts_ns
        AND hand_over.ts_ns
        >= lock_wait.ts_ns + lock_wait.dur_ns - greatest(longest_hold_ns(), lock_wait.dur_ns // 10)
        AND coalesce(loading.end_ns <= lock_wait.ts_ns, TRUE)
),

-- Which thread waited for which other one, and when? Of a thread, no two begin at once.
thread_stand AS (
    SELECT trace_id, pid, waiting_tid, start_ns, max((end_ns, is_backward, tid)) AS latest
    FROM (
        SELECT trace_id, pid, caller_tid AS waiting_tid, tid, start_ns, end_ns, TRUE AS is_backward
        FROM backward_pass
        UNION ALL
        -- Behind the last node, hooks may still launch work.
        SELECT
            pass.trace_id, pass.pid, pass.tid AS waiting_tid, pass.caller_tid AS tid,
            greatest(
                lag(pass.end_ns, 1, 0) OVER (
                    PARTITION BY pass.trace_id, pass.pid, pass.tid
                    ORDER BY pass.start_ns, pass.caller_tid
                ),
                launch.ts_ns
            ) AS start_ns,
            pass.start_ns AS end_ns, FALSE AS is_backward
        FROM backward_pass AS pass
        ASOF LEFT JOIN first_launch AS launch
            ON
                pass.trace_id = launch.trace_id
                AND pass.pid = launch.pid
                AND pass.tid = launch.tid
                AND pass.start_ns > launch.ts_ns
        WHERE pass.has_one_caller
        UNION ALL
        SELECT trace_id, pid, waiting_tid, tid, start_ns, end_ns, FALSE AS is_backward
        FROM handed_over
    ) AS stand
    GROUP BY trace_id, pid, waiting_tid, start_ns
),

late_gap AS MATERIALIZED (
    SELECT
        gap.id,
        coalesce(other.rowid, gap.thread) AS thread,
        coalesce(other.tid, gap.tid) AS tid,
        coalesce(other.tid IS NOT NULL AND stand.latest[2], FALSE) AS is_in_backward,
        if(other.tid IS NULL, gap.start_ns, greatest(gap.start_ns, stand.start_ns)) AS start_ns,
        if(other.tid IS NULL, gap.late_ns, least(gap.late_ns, stand.latest[1])) AS end_ns,
        gap.middle_ns
    FROM (
        SELECT
            id, trace_id, pid, tid, thread, start_ns,
            start_ns + host_ns AS late_ns,
            start_ns + host_ns // 2 AS middle_ns
        FROM timed_gap
        WHERE is_late
    ) AS gap
    ASOF LEFT JOIN thread_stand AS stand
        ON
            gap.trace_id = stand.trace_id
            AND gap.pid = stand.pid
            AND gap.tid = stand.waiting_tid
            AND gap.middle_ns >= stand.start_ns
    LEFT JOIN thread AS other
        ON
            stand.trace_id = other.trace_id
            AND stand.pid = other.pid
            AND stand.latest[3] = other.tid
            AND common_ns(gap.start_ns, gap.late_ns, stand.start_ns, stand.latest[1]) * 2
            > gap.late_ns - gap.start_ns
),

process AS (
    SELECT trace_id, pid, min(rowid) AS number
    FROM thread
    GROUP BY trace_id, pid
),

-- A thread and a kind are one number, and so are a gap and a kind.
thread_wait AS (
    SELECT
        wait_key(thread.rowid, host_waits.kind) AS part,
        host_waits.ts_ns AS start_ns,
        host_waits.ts_ns + host_waits.dur_ns AS end_ns
    FROM host_waits
    INNER JOIN thread
        ON
            host_waits.trace_id = thread.trace_id
            AND host_waits.pid = thread.pid
            AND host_waits.tid = thread.tid
    UNION ALL
    SELECT
        -1 - process.number AS part,
        host_waits.ts_ns AS start_ns,
        host_waits.ts_ns + host_waits.dur_ns AS end_ns
    FROM host_waits
    INNER JOIN process ON host_waits.trace_id = process.trace_id AND host_waits.pid = process.pid
    WHERE host_waits.kind = 'allocator'
),

wait_kind AS (SELECT unnest(wait_kinds()) AS kind),

late_gap_kind AS (
    SELECT
        wait_key(late_gap.id, wait_kind.kind) AS id,
        wait_key(late_gap.thread, wait_kind.kind) AS part,
        late_gap.start_ns, late_gap.end_ns
    FROM late_gap
    CROSS JOIN wait_kind
    UNION ALL
    -- The driver's lock is that of the process, whose number is below those of threads.
    SELECT
        wait_key(gap.id, 'allocator') AS id,
        -1 - process.number AS part,
        greatest(gap.call_ns, gap.start_ns) AS start_ns,
        gap.start_ns + gap.host_ns AS end_ns
    FROM timed_gap AS gap
    INNER JOIN process USING (trace_id, pid)
    WHERE gap.is_late AND gap.link = 'launch'
),

covered_kind AS (
    SELECT id_of_wait_key(id) AS id, kind_of_wait_key(id) AS kind, overlap_ns, ahead_ns
    FROM interval_overlap('late_gap_kind', 'thread_wait')
),

-- How long the thread waited in the host's part of a gap, by kind, and how long a wait for the device had been running
-- when the gap began.
waiting_time AS (
    SELECT
        id,
        max(overlap_ns) FILTER (kind = 'data_loading') AS data_loading_ns,
        sum(overlap_ns) FILTER (kind = 'allocator') AS allocator_ns,
        max(overlap_ns) FILTER (kind = 'comm_wait') AS comm_wait_ns,
        max(overlap_ns) FILTER (kind = 'sync') AS sync_ns,
        max(overlap_ns) FILTER (kind = 'copy') AS copy_ns,
        sum(overlap_ns) FILTER (kind = 'lock') AS lock_ns,
        max(ahead_ns) FILTER (kind = 'sync') AS sync_ahead_ns,
        max(ahead_ns) FILTER (kind = 'copy') AS copy_ahead_ns
    FROM covered_kind
    GROUP BY id
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

gap_middle AS (
    SELECT id, thread AS part, middle_ns AS at_ns
    FROM late_gap
),

op_span AS (
    SELECT
        thread.rowid AS part, event.event_id AS id, event.ts_ns AS start_ns,
        event.ts_ns + event.dur_ns AS end_ns
    FROM event
    INNER JOIN thread
        ON event.trace_id = thread.trace_id AND event.pid = thread.pid AND event.tid = thread.tid
    WHERE is_op(event.category)
),

busy_op AS (SELECT * FROM interval_innermost('gap_middle', 'op_span')),

judged_gap AS (
    SELECT
        timed_gap.*,
        late_gap.middle_ns AS busy_at_ns, late_gap.tid AS busy_tid,
        coalesce(late_gap.is_in_backward, FALSE) AS is_in_backward,
        busy_op.span_id AS busy_op_id,
        coalesce(waiting_time.data_loading_ns, 0) * 2 > timed_gap.host_ns AS is_data_loading,
        coalesce(waiting_time.allocator_ns, 0) * 2 > timed_gap.host_ns AS is_allocator,
        coalesce(waiting_time.comm_wait_ns, 0) * 2 > timed_gap.host_ns AS is_comm_wait,
        (
            coalesce(waiting_time.sync_ns, 0)
            + coalesce(waiting_time.copy_ns, 0)
            + coalesce(waiting_time.sync_ahead_ns, 0)
            + CASE
                WHEN timed_gap.previous_class = 'memcpy_d2h'
                    THEN coalesce(waiting_time.copy_ahead_ns, 0)
                ELSE 0
            END
        ) * 2 > timed_gap.host_ns AS is_sync,
        coalesce(waiting_time.lock_ns, 0) * 2 > timed_gap.host_ns AS is_locked,
        ordered_launch.launch_id IS NOT NULL AS is_ordered,
        timed_gap.end_ns - timed_gap.start_ns <= longest_hold_ns() AS is_short,
        timed_gap.end_ns - timed_gap.start_ns <= coalesce(usual_delay.limit_ns, longest_hold_ns())
            AS is_usual_delay
    FROM timed_gap
    LEFT JOIN late_gap ON timed_gap.id = late_gap.id
    LEFT JOIN waiting_time ON timed_gap.id = waiting_time.id
    LEFT JOIN ordered_launch
        ON
            timed_gap.trace_id = ordered_launch.trace_id
            AND timed_gap.launch_id = ordered_launch.launch_id
    LEFT JOIN busy_op ON timed_gap.id = busy_op.id
    LEFT JOIN usual_delay
        ON timed_gap.trace_id = usual_delay.trace_id AND timed_gap.device = usual_delay.device
),

explained_gap AS (
    SELECT
        *,
        CASE
            WHEN is_inside_launch AND (is_graph OR launch_id IS NULL)
                THEN {cause: 'graph_gap', reason: 'inside one graph replay'}
            WHEN link IS NULL OR link = 'missing_launch'
                THEN {cause: 'unknown', reason: 'launch not recorded'}
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
            WHEN is_data_loading THEN {cause: 'data_loading', reason: 'host waited'}
            WHEN is_allocator THEN {cause: 'allocator', reason: 'host waited'}
            WHEN is_comm_wait THEN {cause: 'comm_wait', reason: 'host waited'}
            WHEN is_sync THEN {cause: 'host_sync', reason: 'host waited'}
            WHEN is_locked THEN {cause: 'unknown', reason: 'waited for some thread'}
            WHEN is_waiting_call AND call_ns <= start_ns
                THEN {cause: 'host_sync', reason: 'launch call waited'}
            WHEN host_ns < short_call_ns() AND call_ns <= start_ns
                THEN {cause: 'launch_latency', reason: 'launch call was running'}
            ELSE {cause: 'host_bound', reason: 'host was at work'}
        END AS decided
    FROM judged_gap
)

SELECT
    trace_id, gap_id, device, start_ns, end_ns,
    end_ns - start_ns AS idle_ns,
    decided.cause, decided.reason, previous_event_id, next_event_id, next_piece, launch_id,
    launch_delay_ns, pid, tid, host_ns, busy_at_ns, busy_tid, busy_op_id, CASE
        WHEN decided.cause = 'data_loading' OR is_in_backward THEN busy_op_id
        ELSE coalesce(busy_op_id, op_id)
    END AS op_id,
    CASE WHEN is_in_backward THEN 'backward' ELSE phase END AS phase,
    CASE WHEN NOT is_in_backward THEN module_id END AS module_id
FROM explained_gap
ORDER BY trace_id, gap_id
