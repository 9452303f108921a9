-- Segments of the critical path of each rank, in time order.
-- The path covers the device window without gaps: kernels, collectives, host time by op, launch latency, stream gaps,
-- waits, and unexplained time. It follows the binding edges of `graph_edge` back from the end. A share of the path is
-- not a gain, because another path may then become the longest; see `slack` and `tracekit predict`.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   limit  BIGINT = 0  only the longest segments of each rank; 0 for all
-- Columns:
--   rank      INTEGER  rank at whose last device event the path ends
--   position  BIGINT   position on the path, from 1
--   kind      VARCHAR  type of the segment (work, transfer, host, loading, call, launch, stream, sync, …); see docs/explanation/graph.md
--   event_id  BIGINT   device event, call, or op; NULL for Python and unrecorded time
--   name      VARCHAR  name of the event, or the kind in parentheses
--   phase     VARCHAR  phase; for host time, the phase of the work that it leads to
--   module_path  VARCHAR
--   class     VARCHAR  kernel class; NULL for host time
--   start_ns  BIGINT   start, relative to the start of the window, ns
--   end_ns    BIGINT   end, relative to the start of the window, ns
--   path_ns   BIGINT   length, ns; adds up to the device window of the rank
--   op        VARCHAR  op that launched the work, or that ran on the host
--   known_by  VARCHAR
--   of_rank   INTEGER  rank on which the segment ran
-- Keep:     position, kind, name, phase, module_path, path_ns
-- View:
--   page    ask=limit:1000
--   browse  key=c menu="critical path" title="Critical path of each rank, in time order"
--           columns=position,start_ns,path_ns,kind,name,op,phase,module_path,class,known_by,rank,of_rank,event_id
-- Invariant: path_ns = end_ns - start_ns AND path_ns > 0
-- Empty: device_events: no GPU work was recorded

SELECT
    t.rank, p.position, p.kind, p.event_id,
    coalesce(p.name, if(p.kind IN ('host', 'thread', 'spawn'), '(Python)', '(' || p.kind || ')'))
        AS name,
    p.phase, p.module_path, p.class,
    p.start_ns - n.start_ns AS start_ns,
    p.end_ns - n.start_ns AS end_ns,
    p.end_ns - p.start_ns AS path_ns,
    coalesce(o.name, if(p.kind IN ('host', 'thread', 'spawn'), p.name, NULL)) AS op,
    p.known_by,
    f.rank AS of_rank
FROM path_piece AS p
INNER JOIN graph_end AS n USING (trace_id)
INNER JOIN trace AS t USING (trace_id)
INNER JOIN trace AS f ON p.of_trace_id = f.trace_id
LEFT JOIN record AS o ON p.of_trace_id = o.trace_id AND p.op_id = o.event_id
QUALIFY
    $limit = 0
    OR row_number() OVER (PARTITION BY p.trace_id ORDER BY p.end_ns - p.start_ns DESC, p.position)
    <= $limit
ORDER BY t.rank NULLS LAST, p.trace_id, p.position
