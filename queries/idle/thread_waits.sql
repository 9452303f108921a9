-- Waits of one CPU thread for another.
-- The caller of a backward pass waits for the thread that runs its nodes. Between passes, that thread waits for the
-- caller. If stacks are recorded, waits for locks and queues are included: another thread ends them by releasing the
-- lock or adding an item.
--
-- Kind:     table
-- Access:   private
-- Input:    host_waits WHERE kind = 'lock' UNION ALL SELECT 1 FROM event WHERE is_python_call(category) AND
--           contains(name, 'run_backward') UNION ALL SELECT 1 FROM launch_context AS s INNER JOIN event AS e
--           USING (trace_id, event_id) INNER JOIN event AS f ON s.trace_id = f.trace_id AND s.forward_op_id =
--           f.event_id WHERE e.pid = f.pid AND e.tid <> f.tid
-- Columns:
--   trace_id INTEGER -> trace, pid BIGINT, waiting_tid BIGINT, start_ns BIGINT, end_ns BIGINT
--   tid BIGINT, is_backward BOOLEAN

WITH first_launch AS (
    SELECT trace_id, pid, tid, ts_ns, min(launch_id) AS launch_id
    FROM launch
    GROUP BY ALL
),

node AS (
    SELECT trace_id, node_id AS event_id, max(forward_op_id) AS forward_op_id
    FROM launch_context
    WHERE node_id IS NOT NULL
    GROUP BY ALL
),

backward_call AS (
    SELECT trace_id, pid, ts_ns, arg_max(tid, (dur_ns, tid)) AS tid, ts_ns + max(dur_ns) AS end_ns
    FROM event
    WHERE is_python_call(category) AND contains(name, 'run_backward')
    GROUP BY trace_id, pid, ts_ns
),

called_node AS (
    SELECT
        span.trace_id, span.pid, span.tid,
        if(called.end_ns > span.ts_ns, called.tid, forward_op.tid) AS caller_tid,
        if(called.end_ns > span.ts_ns, called.ts_ns, span.ts_ns) AS start_ns,
        if(called.end_ns > span.ts_ns, called.end_ns, span.ts_ns + span.dur_ns) AS end_ns
    FROM node
    INNER JOIN event AS span USING (trace_id, event_id)
    LEFT JOIN event AS forward_op
        ON
            span.trace_id = forward_op.trace_id
            AND node.forward_op_id = forward_op.event_id
            AND span.pid = forward_op.pid
    ASOF LEFT JOIN backward_call AS called
        ON span.trace_id = called.trace_id AND span.pid = called.pid AND span.ts_ns >= called.ts_ns
),

-- A node without a recorded forward op has the same caller as the other nodes of its thread.
pass_node AS (
    SELECT
        min(caller_tid) OVER same = max(caller_tid) OVER same AS has_one_caller,
        * REPLACE (if(has_one_caller, min(caller_tid) OVER same, caller_tid) AS caller_tid)
    FROM called_node
    WINDOW same AS (PARTITION BY trace_id, pid, tid)
),

-- A backward pass consists of all nodes that run on other threads between two launches of the
-- caller. If several threads run nodes, the caller waits for the last one.
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

-- Waits inside a data loader are excluded: they are waits for data.
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
)

SELECT DISTINCT ON (trace_id, pid, waiting_tid, start_ns)
    trace_id, pid, waiting_tid, start_ns, end_ns, tid, is_backward
FROM (
    SELECT trace_id, pid, caller_tid AS waiting_tid, start_ns, end_ns, tid, TRUE AS is_backward
    FROM backward_pass
    UNION ALL BY NAME
    -- Hooks may launch work after the last node.
    SELECT
        pass.trace_id, pass.pid,
        pass.tid AS waiting_tid,
        greatest(
            lag(pass.end_ns, 1, 0) OVER (
                PARTITION BY pass.trace_id, pass.pid, pass.tid
                ORDER BY pass.start_ns, pass.caller_tid
            ),
            launch.ts_ns
        ) AS start_ns,
        pass.start_ns AS end_ns, pass.caller_tid AS tid, FALSE AS is_backward
    FROM backward_pass AS pass
    ASOF LEFT JOIN first_launch AS launch
        ON
            pass.trace_id = launch.trace_id
            AND pass.pid = launch.pid
            AND pass.tid = launch.tid
            AND pass.start_ns > launch.ts_ns
    WHERE pass.has_one_caller
    UNION ALL BY NAME
    SELECT *, FALSE AS is_backward
    FROM handed_over
) AS wait
ORDER BY trace_id, pid, waiting_tid, start_ns, end_ns DESC, is_backward DESC, tid DESC
