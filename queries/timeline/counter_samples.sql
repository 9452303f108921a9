-- Which counters were sampled, and what were they?
-- What the file of a trace has as counters (of hardware, as torch.profiler and Nsight Systems sample them, and of the
-- program), and files of samples that tools of the system wrote: those of a run folder are of the traces there, and others
-- of every trace; where traces are of several machines there are none, as a file does not name its own. Files are aligned by the time since the epoch, so that a trace which does not
-- tell that has none of theirs; and have a device by its number, or where they tell none the only one of the trace.
--
-- Kind:     view
-- Columns:
--   trace_id   INTEGER -> trace  the trace
--   device     VARCHAR           number of the device, or cpu; NULL for what is of no device
--   name       VARCHAR           the counter
--   unit       VARCHAR           its unit, as the file has it; empty where it tells none
--   at_ns      BIGINT            when, ns, by the clock of the trace
--   value      DOUBLE            value
--   place      BIGINT            orders values of one moment
--   source     VARCHAR           trace, or the name of the file of samples
--   clock      VARCHAR           trace; of a file UTC, or local, which is in the zone of the machine that read it

WITH series AS (
    SELECT
        c.trace_id, c.event_id, c.name, c.series_id, c.ts_ns,
        regexp_extract(c.extra ->> '$.pid', '^GPU (\d{1,9}) Counters$', 1) AS device,
        -- A path with the name of a series would fail where that has a quote in it.
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
    -- From the year 2000: a clock that began with the machine is not one since the epoch.
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
