-- What is the chain of work and waiting that the end of each rank waited for, in order?
-- From the start of the device window to its end, without a hole: kernels, collectives, the host's own time by op, launch
-- latencies, gaps of streams, waits, and what nothing explains. The edges that bind are those of table graph_edge. A
-- share of the path is no gain: where it gets shorter, another chain may be the longest. Analysis slack and tracekit
-- predict tell what is gained.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   limit  BIGINT = 0  only the longest so many rows of each rank; 0 for all
-- Columns:
--   rank         INTEGER  global rank whose end the path leads to
--   position     BIGINT   place on the path, from 1
--   kind         VARCHAR  work, transfer, host, loading, call, launch, stream, sync, … : what the time is, as in docs/explanation/graph.md
--   event_id     BIGINT   the work, the call or the op; NULL for Python and what has no event
--   name         VARCHAR  its name
--   phase        VARCHAR  phase; of the host that of the work it leads to
--   module_path  VARCHAR  module, or a row of modules in parentheses
--   class        VARCHAR  class of work; NULL for all else
--   start_ns     BIGINT   start, from the start of the window on, ns
--   end_ns       BIGINT   end, from the start of the window on, ns
--   path_ns      BIGINT   end_ns - start_ns: they add up to the window of the rank, ns
--   op           VARCHAR  op that launched the work, or in which the host was
--   known_by     VARCHAR  how it is known that one waits for the other: recorded, inferred or assumed
--   of_rank      INTEGER  the rank in which it is: another one where that is waited for
-- Keep:     position, kind, name, phase, module_path, path_ns
-- View:
--   page    ask=limit:1000
--   browse  key=c menu="critical path" title="Critical path: what the end of each rank waited for, in order"
--           columns=position,start_ns,path_ns,kind,name,op,phase,module_path,class,known_by,rank,of_rank,event_id
-- Invariant: path_ns = end_ns - start_ns AND path_ns > 0
-- Empty: device_events: no work of a device is recorded

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
