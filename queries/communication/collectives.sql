-- Single collectives with size and bandwidth, the longest first.
-- `communication` sums these rows and defines the figures. On cpu, a collective has two rows, and only the row of the
-- backend's span has bytes and bandwidth.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    collective_events
-- Params:
--   limit  BIGINT = 20     number of rows per device, longest first; 0 for all
--   class  VARCHAR = NULL  only this class
-- Columns:
--   rank INTEGER, device VARCHAR, stream BIGINT
--   step                   BIGINT   step of the event
--   phase VARCHAR, class VARCHAR, collective VARCHAR
--   name                   VARCHAR  kernel, op, or span
--   pg_name                VARCHAR
--   pg_ranks               VARCHAR  global ranks, as recorded (possibly truncated)
--   group_size             INTEGER
--   peer_rank              BIGINT   global rank of the peer of a send or receive
--   is_send                BOOLEAN  send rather than receive; NULL for other collectives
--   seq                    BIGINT   sequence number within the group (Seq)
--   dtype                  VARCHAR  element type
--   message_bytes          BIGINT
--   start_ns               BIGINT   start, ns since the first event of the trace
--   dur_ns                 BIGINT
--   wall_ns                BIGINT   exposed part, ns
--   algorithm_bytes_per_s  DOUBLE   algorithm bandwidth, bytes/s; for several copies, from the first start to the last end
--   bus_bytes_per_s        DOUBLE
--   reason                 VARCHAR  why a bandwidth is missing; else NULL
--   label                  VARCHAR  purpose in the name of the range around the launch, such as a layer
--   span_of                VARCHAR  transfer; call for a row without bytes: a c10d op (cpu), or a further copy of the same collective
-- Keep:     rank, device, step, phase, class, start_ns, dur_ns, wall_ns, message_bytes, bus_bytes_per_s, pg_name,
--           name
-- View:
--   browse  key=8 menu=collectives title="Collectives, longest first" ask=limit:0
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
        WHEN c.device = 'cpu' THEN 'only the call: its transfer has a separate row'
        ELSE 'another copy of the same collective'
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
