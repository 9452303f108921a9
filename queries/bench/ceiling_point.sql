-- Which points of microbenchmarks may the devices of the traces be compared with?
-- Those of the run that --ceilings names; without it, those of the run folders of the traces. A run tells when and on how
-- many machines it measured.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Input:    benchmark
-- Columns:
--   point_id       BIGINT   number of the point
--   origin         VARCHAR  run folder; given: by --ceilings
--   run_name       VARCHAR  name of the run's folder
--   measured_at    VARCHAR  when the run was, UTC, ISO 8601; NULL if not known
--   node_count     INTEGER  its machines
--   is_known       BOOLEAN  the data sheets have a device of this name and as many multiprocessors
--   family         VARCHAR  gemm, memcpy or collective
--   op             VARCHAR  as in table benchmark, like all that follows
--   outcome        VARCHAR  ok, or why it has no time
--   device         VARCHAR  cpu or cuda:0
--   device_name    VARCHAR  product
--   unit_count     INTEGER  multiprocessors or compute units
--   thread_count   INTEGER  host threads
--   dtype          VARCHAR  type of the operands
--   m              BIGINT   rows of a product
--   n              BIGINT   its columns
--   k              BIGINT   length of its sums
--   batch          BIGINT   products in one call
--   memory         VARCHAR  of a copy: host memory
--   message_bytes  BIGINT   bytes of a copy or a collective
--   group_size     INTEGER  of a collective: ranks
--   backend        VARCHAR  of a collective: nccl or gloo
--   median_ns      DOUBLE   median time of one call, ns

WITH dated AS (
    SELECT
        run_id, folder_name, node_count,
        -- A time without a zone is UTC.
        epoch_us(try_cast(
            if(
                regexp_matches(created_at, 'T.*(?:[zZ]|[+-]\d\d(?::?\d\d)?)$'),
                created_at,
                created_at || 'Z'
            ) AS TIMESTAMPTZ
        )) AS created_us
    FROM run
),

known AS (
    SELECT DISTINCT device_name, unit_count
    FROM named_peak
)

SELECT
    row_number() OVER (ORDER BY r.folder_name, b.run_id, b.bench_id) AS point_id,
    'run folder' AS origin,
    r.folder_name AS run_name,
    strftime(make_timestamp(r.created_us), '%Y-%m-%dT%H:%M:%S+00:00') AS measured_at,
    r.node_count,
    k.device_name IS NOT NULL AS is_known,
    b.family, b.op, b.outcome, b.device, b.device_name, b.unit_count, b.thread_count, b.dtype, b.m,
    b.n, b.k, b.batch, b.memory, b.message_bytes, b.group_size, b.backend, b.median_ns
FROM benchmark AS b
INNER JOIN dated AS r ON b.run_id = r.run_id
LEFT JOIN known AS k
    ON b.device_name = k.device_name AND b.unit_count IS NOT DISTINCT FROM k.unit_count
ORDER BY point_id
