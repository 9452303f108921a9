-- Calls captured into graphs, with the kernel each one enqueues.
-- The work of captured calls runs only in replays. From files passed with `--capture`, calls outside a capture are
-- included too, because they show which kernel an op launches.
--
-- Kind:     table
-- Input:    launch WHERE contains(name, 'GraphLaunch')
-- Columns:
--   trace_id    INTEGER -> trace
--   event_id    BIGINT -> record           call
--   pid         BIGINT                     process ID; negative for calls from a --capture file
--   tid BIGINT, ts_ns BIGINT, end_ns BIGINT
--   capture_id  BIGINT -> record.event_id  call that began the capture; NULL for calls outside a capture
--   kernel      VARCHAR                    kernel name, `copy`, or `set` (memset); NULL if unknown

WITH call AS (
    SELECT
        trace_id, event_id, pid, tid, ts_ns,
        ts_ns + dur_ns AS end_ns,
        name,
        view_name IS NULL AS is_of_other_file, CASE
            WHEN regexp_matches(name, '(?i)memcpy') THEN 'copy'
            WHEN regexp_matches(name, '(?i)memset') THEN 'set'
            ELSE args ->> '$.kernel'
        END AS kernel,
        contains(name, 'StreamBeginCapture') AS is_begin,
        contains(name, 'StreamEndCapture') AS is_end
    FROM record
    WHERE
        (view_name = 'event' OR view_name IS NULL)
        AND is_launch_call(category)
        AND (
            is_launch_of_work(category, name)
            OR regexp_matches(name, 'Stream(Begin|End)Capture')
        )
        AND NOT regexp_matches(name, '(?i)hostfunc')
),

placed_call AS (
    SELECT
        *,
        any_value(CASE WHEN is_begin THEN event_id WHEN is_end THEN -1 END) OVER (
            PARTITION BY trace_id, pid, tid ORDER BY ts_ns DESC, event_id DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS capture_id
    FROM call
)

SELECT
    c.trace_id, c.event_id, c.pid, c.tid, c.ts_ns, c.end_ns,
    nullif(c.capture_id, -1) AS capture_id,
    c.kernel
FROM placed_call AS c
ANTI JOIN launch AS l ON c.trace_id = l.trace_id AND c.event_id = l.launch_id
WHERE
    NOT c.is_begin
    AND NOT c.is_end
    AND (coalesce(c.capture_id, -1) >= 0 OR (c.is_of_other_file AND c.kernel IS NOT NULL))
ORDER BY c.trace_id, c.pid, c.tid, c.ts_ns, c.event_id
