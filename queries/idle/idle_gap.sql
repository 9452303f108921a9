-- When did each device have nothing to do, and why?
-- A row is a gap of table device_gaps. The cause is what the CPU did between the end of the previous work and the
-- launch of the next:
--   graph_gap       inside of one graph replay: the next work is part of it, and another part ran before
--   unknown         the launch of the next work is not in the trace, so nothing can be said
-- The launch was in time (its call returned before the gap, or in the first half of it):
--   comm_wait       behind communication of another stream, 0.1 ms at the most: what ended long ago holds nobody
--   dependency      a stream was told to wait, or the work lay ready on a stream that was idle longer than the device
--                   (0.1 ms at the most, likewise)
--   unknown         nothing was in between, but the gap is longer than five times what work takes from its launch to
--                   its start on this device (median of what was launched while the device was idle, if ten events
--                   were), or than 0.1 ms
--   launch_latency  nothing was in between, and the gap is no longer than that
-- The launch was late, because for more than half of the host's part of the gap (from its start until the launch call
-- returned) the launching thread was
--   data_loading    in a data loader
--   allocator       getting or returning memory of the device
--   comm_wait       waiting for other ranks
--   host_sync       in a call that waits for the device, or in a copy that does (table host_waits). A wait that was running when the gap
--                   began counts from its own beginning: so much earlier the launch would have come without it
-- or, with nothing of these,
--   launch_latency  in the launch call itself, which began before the gap and was short
--   host_bound      at work: see op_id and module_id
--
-- Kind:     table
-- Requires: event_category, thread, device_gaps, device_context, launch, host_waits, interval_at, interval_innermost,
--           interval_overlap
-- Columns:
--   trace_id           INTEGER  the trace
--   gap_id             BIGINT   number of the gap in the trace, from 1
--   device             VARCHAR  number of the device, or cpu
--   start_ns           BIGINT   end of the previous work, ns
--   end_ns             BIGINT   start of the next work, ns
--   idle_ns            BIGINT   between the two, ns
--   cause              VARCHAR  cause, as above
--   previous_event_id  BIGINT   the device event that ended last before the gap
--   next_event_id      BIGINT   the device event that ended the gap
--   next_piece         BIGINT   its piece, as in table device_events
--   launch_id          BIGINT   the call that launched it
--   launch_delay_ns    BIGINT   from the end of that call to the start of the work, ns; negative if it began before
--   pid                BIGINT   process of the launching thread
--   tid                BIGINT   the launching thread; on cpu, that of the next op
--   host_ns            BIGINT   part of the gap that had passed when the launch call returned, ns
--   busy_at_ns         BIGINT   middle of the host's part where the launch was late, ns
--   busy_op_id         BIGINT   innermost op that was open then on the launching thread; NULL if none was
--   op_id              BIGINT   that op, else (but for data_loading) the op that launched the next work
--   module_id          INTEGER  module of the next work
-- Invariant: idle_ns = end_ns - start_ns AND idle_ns > 0 AND (host_ns IS NULL OR 0 <= host_ns AND host_ns <= idle_ns)

-- On cpu an op launches its pieces, each when it starts.
WITH gap AS (
    SELECT
        found.*,
        found.rowid AS id,
        context.launch_id,
        context.launch_delay_ns,
        context.link,
        context.op_id,
        context.module_id,
        launch.pid,
        launch.tid,
        coalesce(launch.name LIKE '%Graph%', FALSE) AS is_graph,
        launch_wait.event_id IS NOT NULL AS is_waiting_call,
        CASE WHEN context.link = 'cpu' THEN found.end_ns ELSE launch.ts_ns END AS call_ns,
        CASE WHEN context.link = 'cpu' THEN found.end_ns ELSE launch.end_ns END AS returned_ns
    FROM device_gaps AS found
    LEFT JOIN device_context AS context
        ON
            found.trace_id = context.trace_id
            AND found.next_event_id = context.event_id
            AND found.next_piece = context.piece
    LEFT JOIN launch
        ON context.trace_id = launch.trace_id AND context.launch_id = launch.launch_id
    LEFT JOIN host_waits AS launch_wait
        ON
            context.trace_id = launch_wait.trace_id
            AND context.launch_id = launch_wait.event_id
            AND launch_wait.kind IN ('sync', 'copy')
),

timed AS MATERIALIZED (
    SELECT
        gap.*,
        thread.rowid AS thread,
        CASE
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
patience AS (
    SELECT
        trace_id,
        device,
        least((5 * median(end_ns - call_ns))::BIGINT, 100000) AS limit_ns
    FROM timed
    WHERE call_ns >= start_ns
    GROUP BY trace_id, device
    HAVING count(*) >= 10
),

late AS (
    SELECT
        id,
        thread,
        start_ns,
        start_ns + host_ns AS end_ns,
        start_ns + host_ns // 2 AS middle_ns
    FROM timed
    WHERE is_late
),

kind_number AS (
    SELECT *
    FROM (
        VALUES ('data_loading', 0), ('allocator', 1), ('comm_wait', 2), ('sync', 3), ('copy', 4)
    ) AS kind (name, number)
),

-- Thread and kind are one number, and so are a gap and a kind: eight times the one plus the other.
wait AS MATERIALIZED (
    SELECT
        thread.rowid * 8 + kind_number.number AS part,
        host_waits.ts_ns AS start_ns,
        host_waits.ts_ns + host_waits.dur_ns AS end_ns
    FROM host_waits
    INNER JOIN kind_number ON host_waits.kind = kind_number.name
    INNER JOIN thread
        ON
            host_waits.trace_id = thread.trace_id
            AND host_waits.pid = thread.pid
            AND host_waits.tid = thread.tid
),

late_kind AS (
    SELECT
        late.id * 8 + kind_number.number AS id,
        late.thread * 8 + kind_number.number AS part,
        late.start_ns,
        late.end_ns,
        late.start_ns AS at_ns
    FROM late
    CROSS JOIN kind_number
),

waited AS (
    SELECT
        covered.id // 8 AS id,
        max(covered.overlap_ns) FILTER (covered.id % 8 = 0) AS data_loading_ns,
        max(covered.overlap_ns) FILTER (covered.id % 8 = 1) AS allocator_ns,
        max(covered.overlap_ns) FILTER (covered.id % 8 = 2) AS comm_wait_ns,
        max(covered.overlap_ns) FILTER (covered.id % 8 = 3) AS sync_ns,
        max(covered.overlap_ns) FILTER (covered.id % 8 = 4) AS copy_ns
    FROM interval_overlap('late_kind', 'wait') AS covered
    GROUP BY covered.id // 8
),

-- A wait for the device that was running when the gap began.
draining AS (
    SELECT
        late_kind.id // 8 AS id,
        max(late_kind.at_ns - running.start_ns) FILTER (late_kind.id % 8 = 3) AS sync_ahead_ns,
        max(late_kind.at_ns - running.start_ns) FILTER (late_kind.id % 8 = 4) AS copy_ahead_ns
    FROM interval_at('late_kind', 'wait') AS running
    INNER JOIN late_kind ON running.id = late_kind.id
    GROUP BY late_kind.id // 8
),

stream_wait AS (
    SELECT
        trace_id,
        pid,
        tid,
        ts_ns
    FROM event
    WHERE is_launch_call(category) AND name LIKE '%StreamWaitEvent%'
),

first_launch AS (
    SELECT
        trace_id,
        pid,
        tid,
        ts_ns,
        min(launch_id) AS launch_id
    FROM launch
    GROUP BY trace_id, pid, tid, ts_ns
),

-- The first launch behind a call that makes a stream wait.
ordered AS (
    SELECT DISTINCT
        first_launch.trace_id,
        first_launch.launch_id
    FROM stream_wait
    ASOF INNER JOIN first_launch
        ON
            stream_wait.trace_id = first_launch.trace_id
            AND stream_wait.pid = first_launch.pid
            AND stream_wait.tid = first_launch.tid
            AND stream_wait.ts_ns <= first_launch.ts_ns
),

middle AS (
    SELECT
        id,
        thread AS part,
        middle_ns AS at_ns
    FROM late
),

op_span AS (
    SELECT
        thread.rowid AS part,
        event.event_id AS id,
        event.ts_ns AS start_ns,
        event.ts_ns + event.dur_ns AS end_ns
    FROM event
    INNER JOIN thread
        ON
            event.trace_id = thread.trace_id
            AND event.pid = thread.pid
            AND event.tid = thread.tid
    WHERE is_op(event.category)
),

busy_op AS (SELECT * FROM interval_innermost('middle', 'op_span')),

judged AS (
    SELECT
        timed.*,
        busy_op.span_id AS busy_op_id,
        coalesce(waited.data_loading_ns, 0) * 2 > timed.host_ns AS is_data_loading,
        coalesce(waited.allocator_ns, 0) * 2 > timed.host_ns AS is_allocator,
        coalesce(waited.comm_wait_ns, 0) * 2 > timed.host_ns AS is_comm_wait,
        (
            coalesce(waited.sync_ns, 0)
            + coalesce(waited.copy_ns, 0)
            + coalesce(draining.sync_ahead_ns, 0)
            + CASE
                WHEN timed.previous_class = 'memcpy_d2h' THEN coalesce(draining.copy_ahead_ns, 0)
                ELSE 0
            END
        ) * 2 > timed.host_ns AS is_sync,
        ordered.launch_id IS NOT NULL AS is_ordered,
        -- What ended long ago holds nobody: a long gap behind it has another cause.
        timed.end_ns - timed.start_ns <= 100000 AS is_short,
        timed.end_ns - timed.start_ns <= coalesce(patience.limit_ns, 100000) AS is_latency
    FROM timed
    LEFT JOIN waited ON timed.id = waited.id
    LEFT JOIN draining ON timed.id = draining.id
    LEFT JOIN ordered
        ON timed.trace_id = ordered.trace_id AND timed.launch_id = ordered.launch_id
    LEFT JOIN busy_op ON timed.id = busy_op.id
    LEFT JOIN patience
        ON timed.trace_id = patience.trace_id AND timed.device = patience.device
),

explained AS (
    SELECT
        *,
        CASE
            WHEN is_inside_launch AND (is_graph OR launch_id IS NULL) THEN 'graph_gap'
            WHEN link IS NULL OR link = 'missing_launch' THEN 'unknown'
            WHEN NOT is_late
                THEN CASE
                    WHEN previous_kind = 'comm' AND is_other_stream AND is_short THEN 'comm_wait'
                    WHEN is_ordered THEN 'dependency'
                    WHEN
                        is_other_stream
                        AND is_stream_idle
                        AND is_short
                        AND coalesce(returned_ns < start_ns, TRUE)
                        THEN 'dependency'
                    WHEN is_latency THEN 'launch_latency'
                    ELSE 'unknown'
                END
            WHEN is_data_loading THEN 'data_loading'
            WHEN is_allocator THEN 'allocator'
            WHEN is_comm_wait THEN 'comm_wait'
            WHEN is_sync OR (is_waiting_call AND call_ns <= start_ns) THEN 'host_sync'
            WHEN host_ns < 5000 AND call_ns <= start_ns THEN 'launch_latency'
            ELSE 'host_bound'
        END AS cause
    FROM judged
)

SELECT
    trace_id,
    gap_id,
    device,
    start_ns,
    end_ns,
    end_ns - start_ns AS idle_ns,
    cause,
    previous_event_id,
    next_event_id,
    next_piece,
    launch_id,
    launch_delay_ns,
    pid,
    tid,
    host_ns,
    CASE WHEN is_late THEN start_ns + host_ns // 2 END AS busy_at_ns,
    busy_op_id,
    CASE WHEN cause = 'data_loading' THEN busy_op_id ELSE coalesce(busy_op_id, op_id) END AS op_id,
    module_id
FROM explained
ORDER BY trace_id, gap_id
