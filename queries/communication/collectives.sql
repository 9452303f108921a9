-- Which single collectives took longest, and how fast was each?
-- The definitions are those of the analysis communication, which sums these rows up. On cpu a collective has two: the
-- c10d op on the calling thread, and the backend's span, which does the transfer and alone has bytes and a bandwidth.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    collective_events
-- Params:
--   limit  BIGINT = 20    the longest of each device; 0 for all
--   class  VARCHAR = NULL  only collectives of this class
-- Columns:
--   rank                   INTEGER  global rank
--   device                 VARCHAR  number of the device, or cpu
--   stream                 BIGINT   stream of the device; the thread id on cpu
--   step                   BIGINT   the step that it belongs to
--   phase                  VARCHAR  the phase that it belongs to
--   class                  VARCHAR  class of the collective, as in table kernel_class
--   collective             VARCHAR  its name, as its call gives it
--   name                   VARCHAR  kernel, op or span
--   pg_name                VARCHAR  process group, where the call names it
--   pg_ranks               VARCHAR  its global ranks, as in the file; the profiler may cut it short
--   group_size             INTEGER  ranks in the group
--   peer_rank              BIGINT   of a send or receive: the global rank at the other end
--   is_send                BOOLEAN  of those, which of the two; NULL of other collectives
--   seq                    BIGINT   number of the collective in its group (Seq)
--   dtype                  VARCHAR  type of the elements
--   message_bytes          BIGINT   size of the message, bytes
--   start_ns               BIGINT   start, ns since the first event of the trace
--   dur_ns                 BIGINT   duration, ns
--   wall_ns                BIGINT   exposed: while nothing is computed, ns
--   algorithm_bytes_per_s  DOUBLE   message_bytes / dur_ns (of several copies, from the first to the last), bytes/s
--   bus_bytes_per_s        DOUBLE   the same, weighted for the wires, bytes/s
--   reason                 VARCHAR  why a bandwidth is missing; NULL if none is
--   label                  VARCHAR  what the range around its launch says that it is for, such as a layer
--   span_of                VARCHAR  transfer, or call: on cpu the op that a transfer of its own belongs to, else a further copy of one
-- Keep:     rank, device, step, phase, class, start_ns, dur_ns, wall_ns, message_bytes, bus_bytes_per_s, pg_name,
--           name
-- View:
--   browse  key=8 menu=collectives title="Collectives, the longest of each device first" ask=limit:0
--           columns=dur_ns,wall_ns,message_bytes,bus_bytes_per_s,class,step,phase,start_ns,label,peer_rank,group_size,pg_name,name,rank,device,reason
-- Invariant: 0 <= wall_ns AND wall_ns <= dur_ns

SELECT
    t.rank, c.device, c.stream, c.step, c.phase, c.class, c.collective, c.name, c.pg_name,
    c.pg_ranks, c.group_size, c.peer_rank, c.is_send, c.seq, c.dtype,
    if(c.is_transfer, c.message_bytes, NULL) AS message_bytes,
    c.ts_ns - t.first_ts_ns AS start_ns,
    c.dur_ns, c.wall_ns,
    1e9 * if(c.is_transfer, c.message_bytes, NULL) / nullif(c.call_ns, 0) AS algorithm_bytes_per_s,
    c.bus_factor * (1e9 * if(c.is_transfer, c.message_bytes, NULL) / nullif(c.call_ns, 0))
        AS bus_bytes_per_s,
    CASE
        WHEN c.is_transfer THEN c.reason
        WHEN c.device = 'cpu' THEN 'the call alone: its transfer has a row of its own'
        ELSE 'a further copy of one collective'
    END AS reason, c.label,
    if(c.is_transfer, 'transfer', 'call') AS span_of
FROM collective_events AS c
INNER JOIN trace AS t USING (trace_id)
WHERE $class IS NULL OR c.class = $class
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY c.trace_id, c.device ORDER BY c.dur_ns DESC, c.ts_ns, c.event_id
    ) <= $limit
ORDER BY t.rank NULLS LAST, t.trace_id, c.device, c.dur_ns DESC, c.ts_ns, c.event_id
