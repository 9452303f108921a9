-- Dependency edges of collectives, across ranks and backend threads.
-- A matched collective transfers data once its last rank has arrived (the meeting). A task on a backend thread depends
-- on the call that posted it and on the previous task of the thread. A posting call counts as work itself if it lasts
-- longer than 0.1 ms and three times the usual delay.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER, source_node BIGINT, target_node BIGINT
--   kind  VARCHAR  meeting, transfer, posted, or worker
--   known_by VARCHAR, source_ns BIGINT, target_ns BIGINT, weight_ns BIGINT

WITH matched_span AS (
    SELECT
        m.trace_id, s.span_id, s.start_ns, s.end_ns, m.match_id,
        max(s.start_ns) OVER (PARTITION BY m.match_id) AS meeting_ns, m.transfer_ns,
        if(m.matched_by = 'seq', 'recorded', 'inferred') AS known_by,
        -dense_rank() OVER (ORDER BY m.match_id) AS meeting
    FROM collective_matches AS m
    INNER JOIN graph_span AS s USING (trace_id, event_id)
    WHERE m.wait_ns IS NOT NULL AND s.kind = 'work' AND s.piece = 0
)

SELECT
    trace_id,
    span_id * 2 AS source_node,
    meeting AS target_node,
    'meeting' AS kind,
    known_by,
    start_ns AS source_ns,
    meeting_ns AS target_ns,
    0 AS weight_ns
FROM matched_span
UNION ALL
SELECT
    trace_id, meeting, span_id * 2 + 1, 'transfer', known_by, meeting_ns, end_ns,
    least(transfer_ns, end_ns - meeting_ns)
FROM matched_span
UNION ALL
SELECT
    trace_id, post_id * 2 + is_behind::BIGINT, span_id * 2, 'posted', 'inferred',
    if(is_behind, post_end_ns, post_ns) AS source_ns,
    start_ns,
    if(is_long AND NOT is_behind, start_ns - source_ns, least(usual_ns, start_ns - source_ns))
FROM (
    SELECT
        *,
        post_end_ns - post_ns > greatest(100000, 3 * usual_ns) AS is_long,
        is_long AND start_ns >= post_end_ns AS is_behind
    FROM graph_task
) AS t
UNION ALL
SELECT
    trace_id, before_id * 2 + 1, span_id * 2, 'worker', 'inferred', before_end_ns, start_ns,
    least(20000, start_ns - before_end_ns)
FROM graph_task
WHERE before_id IS NOT NULL
