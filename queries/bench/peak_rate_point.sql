-- Benchmark points that provide measured peak rates for the devices of the traces.
-- Points come from the run named by `--peak-rates`, or else from the run folders of the traces.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Input:    benchmark
-- Columns:
--   point_id  BIGINT
--   origin    VARCHAR  run folder, or given (by --peak-rates)
--   run_name VARCHAR, measured_at VARCHAR, node_count INTEGER
--   is_known  BOOLEAN  the data sheets list a device with this name and number of units
--   family VARCHAR, op VARCHAR, outcome VARCHAR, device VARCHAR, device_name VARCHAR
--   unit_count INTEGER, thread_count INTEGER, dtype VARCHAR, m BIGINT, n BIGINT, k BIGINT, batch BIGINT
--   memory VARCHAR, message_bytes BIGINT, group_size INTEGER, backend VARCHAR, median_ns DOUBLE

WITH dated AS (
    SELECT
        run_id, folder_name, node_count,
        -- A timestamp without a time zone is UTC.
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
