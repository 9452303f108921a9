-- Bandwidth of collectives in NCCL inspector logs.
-- NCCL logs only the last finished collective of each interval; spanned_count also includes the collectives that were
-- not logged. Times are integral µs on the clock named by timing_source. The message is the data of one rank; for
-- all-gather and reduce-scatter, algorithm bandwidth counts the data of all ranks.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit  BIGINT = 0  number of rows per communicator, longest first; 0 for all
-- Columns:
--   rank                    INTEGER  global rank, if the file name contains it
--   file_name               VARCHAR  log file
--   comm                    VARCHAR  communicator hash
--   comm_rank               BIGINT   rank in the communicator
--   group_size              BIGINT   number of ranks of the communicator
--   node_count              BIGINT   number of machines; NULL if unknown
--   collective              VARCHAR  AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Send, Recv, …
--   message_bytes           BIGINT   message size of a rank, bytes
--   timing_source           VARCHAR  kernel_gpu, kernel_cpu, or collective_cpu; NULL if unknown
--   collective_count        BIGINT   number of collectives in the log
--   spanned_count           BIGINT   number of collectives from the first to the last in the log; sends and receives are counted separately
--   time_ns                 BIGINT   sum of durations, ns
--   min_time_ns             BIGINT   minimum duration, ns
--   max_time_ns             BIGINT   maximum duration, ns
--   algorithm_bytes_per_s   DOUBLE
--   bus_bytes_per_s         DOUBLE   bus bandwidth, bytes/s; NULL if the collective is not recognized
--   stated_bus_bytes_per_s  DOUBLE   bus bandwidth stated in the log, time-weighted mean, bytes/s
-- Keep:      comm, comm_rank, collective, message_bytes, collective_count, bus_bytes_per_s, time_ns
-- Invariant: collective_count >= 1 AND collective_count <= spanned_count AND min_time_ns <= max_time_ns
-- Empty: no file is an NCCL inspector log (NCCL_PROFILER_PLUGIN, NCCL_INSPECTOR_ENABLE=1)

WITH factors (collective, is_of_all, bus_factor, per_rank) AS (
    -- per_rank means that (group_size - 1) / group_size of the message crosses the links of a rank.
    VALUES
    ('AllReduce', FALSE, 2, TRUE),
    ('AllGather', TRUE, 1, TRUE),
    ('ReduceScatter', TRUE, 1, TRUE),
    ('Broadcast', FALSE, 1, FALSE),
    ('Reduce', FALSE, 1, FALSE),
    ('Send', FALSE, 1, FALSE),
    ('Recv', FALSE, 1, FALSE),
    ('SendRecv', FALSE, 1, FALSE)
),

lines AS (
    SELECT
        t.trace_id, t.rank, t.file_name, e.args ->> 'comm' AS comm,
        (e.args ->> 'comm_rank')::BIGINT AS comm_rank,
        (e.args ->> 'group_size')::BIGINT AS group_size,
        (e.args ->> 'node_count')::BIGINT AS node_count,
        e.name AS collective,
        (e.args ->> 'bytes')::BIGINT AS message_bytes,
        e.args ->> 'timing_source' AS timing_source,
        (e.args ->> 'seq')::BIGINT AS seq,
        e.args ->> 'is_numbered_apart' AS is_numbered_apart,
        1e9 * (e.args ->> 'bus_gb_per_s')::DOUBLE AS stated,
        e.dur_ns, e.event_id
    FROM event AS e
    INNER JOIN trace AS t USING (trace_id)
    WHERE e.category = 'nccl_inspector'
),

spanned AS (
    SELECT
        *,
        max(seq) OVER comms - min(seq) OVER comms + 1 AS spanned_count
    FROM lines
    WINDOW comms AS (PARTITION BY trace_id, comm, comm_rank, is_numbered_apart)
),

summed AS (
    SELECT
        trace_id, rank, file_name, comm, comm_rank, group_size, node_count, collective,
        message_bytes, timing_source, spanned_count,
        count(*) AS collective_count,
        sum(dur_ns)::BIGINT AS time_ns,
        min(dur_ns) AS min_time_ns,
        max(dur_ns) AS max_time_ns,
        sum(stated * dur_ns ORDER BY event_id) / nullif(sum(dur_ns), 0) AS stated
    FROM spanned
    GROUP BY ALL
)

SELECT
    s.rank, s.file_name, s.comm, s.comm_rank, s.group_size, s.node_count, s.collective,
    s.message_bytes, s.timing_source, s.collective_count, s.spanned_count, s.time_ns, s.min_time_ns,
    s.max_time_ns,
    1e9 * s.collective_count * s.message_bytes * if(f.is_of_all, s.group_size, 1)
    / nullif(if(f.collective IS NULL, NULL, s.time_ns), 0) AS algorithm_bytes_per_s,
    algorithm_bytes_per_s * f.bus_factor
    * if(f.per_rank, (s.group_size - 1) / s.group_size, 1) AS bus_bytes_per_s,
    s.stated AS stated_bus_bytes_per_s
FROM summed AS s
LEFT JOIN factors AS f USING (collective)
QUALIFY
    $limit = 0 OR $limit >= row_number() OVER (
        PARTITION BY s.trace_id, s.comm, s.comm_rank
        ORDER BY s.time_ns DESC, s.collective, s.message_bytes, s.timing_source
    )
ORDER BY
    s.rank NULLS LAST, s.trace_id, s.comm, s.comm_rank, s.time_ns DESC, s.collective,
    s.message_bytes, s.timing_source
