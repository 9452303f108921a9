-- Which spans ran on the threads of the host, and in which order do they nest?
-- Python calls, ranges, ops and runtime calls. Numbered by their starts; of equal starts the longer is outside, of equal
-- spans ranges are inside of Python calls, ops of ranges and runtime calls of ops.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace            the trace
--   event_id  BIGINT -> event             the span
--   pid       BIGINT                      process id
--   tid       BIGINT -> thread(pid, tid)  thread id
--   category  VARCHAR                     category, as in the file
--   name      VARCHAR                     name
--   ts_ns     BIGINT                      start, ns
--   dur_ns    BIGINT                      duration, ns
--   place     BIGINT                      number in that order, of all threads, from 1

SELECT
    trace_id, event_id, pid, tid, category, name, ts_ns, dur_ns,
    row_number() OVER (
        ORDER BY
            trace_id, pid, tid,
            ts_ns, dur_ns DESC,
            CASE
                WHEN is_python_call(category) THEN 0
                WHEN is_annotation(category) THEN 1
                WHEN is_op(category) THEN 2
                ELSE 3
            END,
            CASE WHEN is_op(category) THEN external_id END,
            name DESC, event_id
    ) AS place
FROM event
WHERE
    is_python_call(category)
    OR is_annotation(category)
    OR is_op(category)
    OR is_launch_call(category)
