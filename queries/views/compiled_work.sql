-- How much of the device's work was launched inside of regions that torch.compile compiled?
-- The modules inside of such a region are not called, so they have no ranges: their time is at the module that calls
-- the region. One row for each trace that has such regions: the calls of regions, and the passes of their graphs.
--
-- Kind:     view
-- Requires: event_category, interval_at, device_events, device_context, launch
-- Columns:
--   trace_id      INTEGER  the trace
--   region_count  BIGINT   spans of regions and of passes of their graphs
--   graphs        VARCHAR  numbers of the graphs, as in the names of the regions, five at most; NULL where none tells
--   compiled_ns   BIGINT   durations of the device events that were launched inside of them, added up, ns
-- Invariant: compiled_ns >= 0

WITH region AS (
    SELECT
        trace_id,
        trace_id || '/' || pid || '/' || tid AS part,
        nullif(regexp_extract(name, '^Torch-Compiled Region: ([0-9]+/[0-9]+)', 1), '') AS graph,
        ts_ns AS start_ns,
        ts_ns + dur_ns AS end_ns
    FROM event
    WHERE
        (
            starts_with(name, 'Torch-Compiled Region')
            OR name IN ('CompiledFunction', 'CompiledFunctionBackward')
        )
        AND (is_op(category) OR is_annotation(category))
),

graph_fact AS (
    SELECT
        trace_id,
        count(*) AS region_count,
        nullif(array_to_string(list_sort(list(DISTINCT graph))[:5], ', '), '')
        || CASE WHEN count(DISTINCT graph) > 5 THEN ', …' ELSE '' END AS graphs
    FROM region
    GROUP BY trace_id
),

called AS (
    SELECT
        rowid AS id,
        trace_id,
        launch_id,
        trace_id || '/' || pid || '/' || tid AS part,
        ts_ns AS at_ns
    FROM launch
    WHERE trace_id IN (SELECT trace_id FROM region)
),

compiled AS (
    SELECT
        called.trace_id,
        called.launch_id
    FROM called
    WHERE called.id IN (SELECT open_region.id FROM interval_at('called', 'region') AS open_region)
),

compiled_fact AS (
    SELECT
        d.trace_id,
        sum(d.dur_ns)::BIGINT AS compiled_ns
    FROM device_events AS d
    INNER JOIN device_context AS c
        ON d.trace_id = c.trace_id AND d.event_id = c.event_id AND d.piece = c.piece
    INNER JOIN compiled AS i ON c.trace_id = i.trace_id AND c.launch_id = i.launch_id
    GROUP BY d.trace_id
)

SELECT
    g.trace_id,
    g.region_count,
    g.graphs,
    coalesce(c.compiled_ns, 0)::BIGINT AS compiled_ns
FROM graph_fact AS g
LEFT JOIN compiled_fact AS c ON g.trace_id = c.trace_id
