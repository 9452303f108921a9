-- Captured call that corresponds to each device event of a graph replay.
-- A replay matches a capture if both have the same kernels, copies, and memsets in the same order. The order is by
-- graph node number, or by time on a single stream. Kernel names of a capture come from its calls, or from the same op
-- with the same arguments elsewhere in the file. Identical captures (layers of a model) are assigned in order, counted
-- from the nearest replays that match only one capture. Replays of one capture that differ in grid size come from
-- several captures and stay unmatched.
--
-- Kind:     table
-- Input:    captured_call WHERE capture_id IS NOT NULL
-- Columns:
--   trace_id          INTEGER -> trace
--   event_id          BIGINT -> device_events.event_id  device event
--   call_id           BIGINT -> captured_call.event_id  captured call
--   replay_id         BIGINT -> event.event_id          launch of the graph
--   captured_op_id    BIGINT -> record.event_id         innermost op around the captured call
--   op_id             BIGINT -> record.event_id         ID for that op in this replay; NULL outside ops
--   op_name           VARCHAR
--   replay_phase      VARCHAR                           phase of the launch context of the graph
--   replay_module_id  INTEGER -> module.module_id       module around that launch
--   replay_source     VARCHAR                           source of that module, as in module
--   replay_range_id   INTEGER -> module.module_id       user range around that launch

WITH replay AS (
    SELECT trace_id, launch_id, correlation, ts_ns
    FROM launch
    WHERE contains(name, 'GraphLaunch')
    QUALIFY count(*) OVER (PARTITION BY trace_id, correlation) = 1
),

run AS (
    SELECT
        r.trace_id, r.launch_id, d.event_id, d.ts_ns,
        try_cast(e.args ->> '$."graph node id"' AS BIGINT) AS node_id,
        e.args ->> '$.grid' AS grid,
        (d.device, d.stream) AS lane,
        CASE
            WHEN d.kind = 'memcpy' OR contains(d.name, 'copyBuffer') THEN 'copy'
            WHEN copy_of(d.class) = 'set' OR contains(d.name, 'fillBuffer') THEN 'set'
            ELSE d.name
        END AS kernel
    FROM replay AS r
    INNER JOIN device_events AS d USING (trace_id, correlation)
    INNER JOIN event AS e USING (trace_id, event_id)
),

judged_run AS (
    SELECT
        *,
        count(node_id) OVER of_launch = count(*) OVER of_launch AS is_numbered,
        min(lane) OVER of_launch = max(lane) OVER of_launch AS is_on_one_stream
    FROM run
    WINDOW of_launch AS (PARTITION BY trace_id, launch_id)
),

ordered_run AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id, launch_id ORDER BY if(is_numbered, node_id, 0), ts_ns, event_id
        ) AS position
    FROM judged_run
    WHERE is_numbered OR is_on_one_stream
),

played AS (
    SELECT
        r.trace_id, r.launch_id,
        list(hash(o.kernel) ORDER BY o.position) AS kernels,
        row_number() OVER (PARTITION BY r.trace_id ORDER BY any_value(r.ts_ns), r.launch_id)
            AS place
    FROM replay AS r
    INNER JOIN ordered_run AS o USING (trace_id, launch_id)
    GROUP BY r.trace_id, r.launch_id
),

known_call AS (
    SELECT * FROM captured_call
    UNION ALL
    SELECT
        l.trace_id, l.launch_id, l.pid, l.tid, l.ts_ns, l.end_ns,
        NULL AS capture_id,
        any_value(d.name) AS kernel
    FROM launch AS l
    INNER JOIN device_events AS d USING (trace_id, correlation)
    WHERE d.device <> 'cpu'
    GROUP BY ALL
    HAVING count(*) = 1
),

called AS (
    SELECT
        c.*,
        s.op_id,
        o.name AS op_name,
        {
            name: o.name,
            given: json_extract_string(
                o.args, ['$."Input Dims"', '$."Input type"', '$."Concrete Inputs"']
            ),
            number: row_number() OVER (PARTITION BY c.trace_id, s.op_id ORDER BY c.ts_ns),
            count: count(*) OVER (PARTITION BY c.trace_id, s.op_id)
        } AS signature
    FROM known_call AS c
    LEFT JOIN launch_context AS s USING (trace_id, event_id)
    LEFT JOIN record AS o ON s.trace_id = o.trace_id AND s.op_id = o.event_id
),

known AS (
    SELECT trace_id, signature, min(kernel) AS kernel
    FROM called
    WHERE capture_id IS NULL AND op_id IS NOT NULL
    GROUP BY trace_id, signature
    HAVING min(kernel) = max(kernel)
),

captured AS (
    SELECT
        c.* EXCLUDE (signature, kernel),
        coalesce(c.kernel, k.kernel) AS kernel,
        row_number() OVER (
            PARTITION BY c.trace_id, c.capture_id ORDER BY c.ts_ns, c.event_id
        ) AS position
    FROM called AS c
    LEFT JOIN known AS k
        ON c.trace_id = k.trace_id AND c.op_id IS NOT NULL AND c.signature = k.signature
    WHERE c.capture_id IS NOT NULL
),

capture AS (
    SELECT
        trace_id, capture_id, pid,
        list(hash(kernel) ORDER BY position) AS kernels,
        row_number() OVER (PARTITION BY trace_id, pid ORDER BY min(ts_ns), capture_id) AS number
    FROM captured
    GROUP BY trace_id, capture_id, pid
    HAVING count(kernel) = count(*)
),

unlike_capture AS (
    SELECT *
    FROM capture
    QUALIFY count(*) OVER (PARTITION BY trace_id, kernels) = 1
),

-- For replays that match only one capture: difference between the number of the capture and the
-- position of the replay.
anchored AS (
    SELECT
        p.*,
        if(a.number IS NULL, NULL, {pid: a.pid, shift: a.number - p.place}) AS anchor
    FROM played AS p
    LEFT JOIN unlike_capture AS a USING (trace_id, kernels)
),

aligned AS (
    SELECT
        *,
        any_value(anchor) OVER so_far AS before,
        any_value(anchor) OVER from_here AS after
    FROM anchored
    WINDOW
        so_far AS (
            PARTITION BY trace_id ORDER BY place DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ),
        from_here AS (
            PARTITION BY trace_id ORDER BY place
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
),

matched AS (
    SELECT a.trace_id, a.launch_id, c.capture_id
    FROM aligned AS a
    INNER JOIN capture AS c
        ON
            a.trace_id = c.trace_id
            AND a.kernels = c.kernels
            AND coalesce(a.before, a.after).pid = c.pid
            AND coalesce(a.before, a.after).shift + a.place = c.number
    WHERE coalesce(a.before, a.after) = coalesce(a.after, a.before)
),

paired AS (
    SELECT
        o.*,
        c.capture_id, c.event_id AS call_id, c.op_id AS captured_op_id, c.op_name,
        min(o.position) OVER (PARTITION BY o.trace_id, o.launch_id, c.op_id) AS op_position
    FROM ordered_run AS o
    INNER JOIN matched AS m USING (trace_id, launch_id)
    INNER JOIN captured AS c USING (trace_id, capture_id, position, kernel)
),

several_sizes AS (
    SELECT trace_id, capture_id
    FROM paired
    GROUP BY trace_id, capture_id, position
    HAVING count(DISTINCT grid) > 1
),

last_event AS (
    SELECT trace_id, max(event_id) AS event_id
    FROM record
    GROUP BY trace_id
)

SELECT
    p.trace_id, p.event_id, p.call_id,
    p.launch_id AS replay_id,
    p.captured_op_id, CASE
        WHEN p.captured_op_id IS NOT NULL
            THEN
                e.event_id
                + dense_rank() OVER (PARTITION BY p.trace_id ORDER BY p.launch_id, p.op_position)
    END AS op_id, p.op_name,
    s.marked_phase AS replay_phase,
    s.module_id AS replay_module_id,
    s.module_source AS replay_source,
    s.range_id AS replay_range_id
FROM paired AS p
ANTI JOIN several_sizes AS z USING (trace_id, capture_id)
INNER JOIN last_event AS e ON p.trace_id = e.trace_id
LEFT JOIN launch_context AS s ON p.trace_id = s.trace_id AND p.launch_id = s.event_id
ORDER BY p.trace_id, p.launch_id, p.position
