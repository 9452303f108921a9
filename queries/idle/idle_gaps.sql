-- Longest idle gap segments, with cause, op, and Python line.
-- Adjacent segments of a gap with the same cause form one row. If the launch was late, op and python_line show the
-- host's activity in the middle of host_ns, the part before the launch call returned. If a row has several segments,
-- the longest one counts. op is the innermost op on the busy thread, or NULL. python_line is the innermost Python
-- function outside torch and builtins on the launching thread.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit       BIGINT = 20  number of rows per device; 0 for all
--   min_gap_ns  BIGINT = 0   minimum length, ns
--   cause       VARCHAR{host_sync|data_loading|allocator|host_bound|launch_latency|dependency|comm_wait|graph_gap|not_recorded|profiler|unknown} = NULL  only this cause
-- Columns:
--   rank INTEGER, device VARCHAR
--   start_ns         BIGINT   start, ns since the first event of the trace
--   idle_ns          BIGINT   length, ns
--   cause            VARCHAR  as in idle_causes
--   host_ns          BIGINT   part before the launch call of the next work returned, ns
--   previous_kernel  VARCHAR  previous device event
--   next_kernel      VARCHAR  next device event
--   op               VARCHAR  op that kept the CPU busy
--   python_line      VARCHAR  Python function that kept the CPU busy, as file(line): function
--   next_op          VARCHAR  op that launched the next work
--   module           VARCHAR  module path, or a row such as (optimizer), of the last segment
--   launch           VARCHAR  launch call of the next work
--   launch_ns        BIGINT   duration of the launch call, ns
--   delay_ns         BIGINT   time from the end of the launch call to the start of the work, ns; negative if the work started earlier
-- Keep:     rank, device, start_ns, idle_ns, cause, op, module, next_kernel, previous_kernel
-- View:
--   chart   form=points title="Longest idle gaps" x=start_ns axis="start, since the first event" y=idle_ns
--           y_axis="length" y_scale=log colour=cause
--           tip=where,start_ns,idle_ns,cause,op,module,python_line,next_kernel
-- Invariant: idle_ns > 0 AND (host_ns IS NULL OR (0 <= host_ns AND host_ns <= idle_ns))

WITH segment AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY trace_id, gap_id ORDER BY start_ns)
        - row_number() OVER (PARTITION BY trace_id, gap_id, cause ORDER BY start_ns) AS run
    FROM idle_gap
),

cause_run AS (
    SELECT
        trace_id, gap_id, device, cause, next_event_id, next_piece, previous_event_id, launch_id,
        launch_delay_ns, run,
        min(start_ns) AS start_ns,
        sum(idle_ns)::BIGINT AS idle_ns,
        sum(host_ns)::BIGINT AS host_ns,
        arg_max({op: busy_op_id, python: python_event_id}, idle_ns) AS at_work,
        arg_max({module: module_id}, end_ns).module AS module_id
    FROM segment
    WHERE $cause IS NULL OR cause = $cause
    GROUP BY ALL
),

chosen AS (
    SELECT *
    FROM cause_run
    WHERE idle_ns >= $min_gap_ns
    QUALIFY
        $limit = 0
        OR row_number() OVER (
            PARTITION BY trace_id, device ORDER BY idle_ns DESC, gap_id, start_ns
        ) <= $limit
)

SELECT
    w.rank, w.device,
    g.start_ns - t.first_ts_ns AS start_ns,
    g.idle_ns, g.cause, g.host_ns, p.name AS previous_kernel, n.name AS next_kernel,
    busy.name AS op, frame.name AS python_line, c.op_name AS next_op, m.path AS module,
    CASE WHEN c.link <> 'cpu' THEN l.name END AS launch,
    CASE WHEN c.link <> 'cpu' THEN l.dur_ns END AS launch_ns,
    g.launch_delay_ns AS delay_ns
FROM chosen AS g
INNER JOIN device_windows AS w USING (trace_id, device)
INNER JOIN trace AS t USING (trace_id)
INNER JOIN event AS p ON g.trace_id = p.trace_id AND g.previous_event_id = p.event_id
INNER JOIN event AS n ON g.trace_id = n.trace_id AND g.next_event_id = n.event_id
LEFT JOIN attribution AS c
    ON g.trace_id = c.trace_id AND g.next_event_id = c.event_id AND g.next_piece = c.piece
LEFT JOIN event AS busy ON g.trace_id = busy.trace_id AND g.at_work.op = busy.event_id
LEFT JOIN event AS frame ON g.trace_id = frame.trace_id AND g.at_work.python = frame.event_id
LEFT JOIN module AS m ON g.trace_id = m.trace_id AND g.module_id = m.module_id
LEFT JOIN launch AS l ON g.trace_id = l.trace_id AND g.launch_id = l.launch_id
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, g.idle_ns DESC, g.gap_id, g.start_ns
