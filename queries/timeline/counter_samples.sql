-- Counter samples of each trace, on the clock of the trace.
-- Samples come from counter events (hardware counters of torch.profiler and Nsight Systems, counters of the program)
-- and from sample files of system tools. Sample files in a run folder apply to the traces of that folder, and other
-- files to all traces. If the traces come from several machines, no file applies. Files are aligned by Unix time, so
-- traces without a base time get no samples from them. A sample belongs to the device of its number, or to the only
-- device.
--
-- Kind:     view
-- Columns:
--   trace_id  INTEGER -> trace
--   device  VARCHAR  device number, or cpu; NULL if the counter has no device
--   name    VARCHAR  counter
--   unit    VARCHAR  unit, as recorded; empty if unknown
--   at_ns   BIGINT   time on the clock of the trace, ns
--   value   DOUBLE   sampled value
--   place   BIGINT   order of values with the same time
--   source  VARCHAR  trace, or the name of the sample file
--   clock   VARCHAR  trace; for files, UTC or local (time zone of the machine that reads them)

WITH series AS (
    SELECT
        c.trace_id, c.event_id, c.name, c.series_id, c.ts_ns,
        regexp_extract(c.extra ->> '$.pid', '^GPU (\d{1,9}) Counters$', 1) AS device,
        -- json_extract fails if the series name in the path contains a quote.
        json_keys(c.args) AS names,
        json_extract_string(c.args, '$.*') AS texts,
        unnest(json_keys(c.args)) AS name_of_series
    FROM counter AS c
    WHERE json_type(c.args) = 'OBJECT'
),

epoch AS (
    SELECT
        t.trace_id, t.base_time_ns, t.path,
        greatest(count(DISTINCT t.host_name) OVER (), max(r.node_count) OVER ()) AS host_count
    FROM trace AS t
    LEFT JOIN run AS r USING (run_id)
    -- Times before the year 2000 are not Unix times: their clock started when the machine booted.
    WHERE base_time_ns::HUGEINT + first_ts_ns BETWEEN 946684800000000000 AND 4611686018427387904
),

windows AS (
    SELECT
        trace_id, device,
        count(*) OVER (PARTITION BY trace_id) AS device_count
    FROM device_windows
)

SELECT
    trace_id,
    nullif(device, '') AS device,
    concat_ws(
        ': ', nullif(concat_ws(' ', name, series_id), ''), nullif(name_of_series, '')
    ) AS name,
    '' AS unit,
    ts_ns AS at_ns,
    try_cast(texts[list_position(names, name_of_series)] AS DOUBLE) AS value,
    event_id AS place,
    'trace' AS source,
    'trace' AS clock
FROM series
UNION ALL
SELECT
    e.trace_id, w.device, c.name,
    coalesce(c.unit, '') AS unit,
    c.at_ns - e.base_time_ns AS at_ns,
    c.value,
    0 AS place,
    parse_filename(c.path) AS source,
    c.clock
FROM system_sample AS c
INNER JOIN epoch AS e
    ON e.host_count <= 1 AND (c.folder IS NULL OR starts_with(e.path, c.folder || '/'))
INNER JOIN windows AS w
    ON
        e.trace_id = w.trace_id
        AND (c.device = w.device OR (c.device IS NULL AND w.device_count = 1))
