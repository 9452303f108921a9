-- GPU time in torch.compile regions, by graph, kernel, and generated file.
-- Compiled code does not call the modules inside a region. The attribution comes from regions, sequence numbers, and
-- kernel arguments. Rows without a pass contain the work outside regions, so with `limit` 0, wall_ns adds up to the
-- busy time of the device.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit  BIGINT = 30  number of rows per device, longest first; 0 for all
-- Columns:
--   rank INTEGER, device VARCHAR
--   pass          VARCHAR  forward or backward; NULL outside regions
--   graph         VARCHAR  graph number (frame/entry); NULL if unknown
--   phase         VARCHAR
--   module_path   VARCHAR  module path, or a row such as (optimizer) for work outside modules; NULL outside regions
--   name          VARCHAR  kernel, copy, or op; NULL outside regions
--   class         VARCHAR  kernel class; NULL outside regions
--   kernel_file   VARCHAR  generated file with the kernel, if recorded
--   region_count  BIGINT   number of region calls that launched the kernel; 0 outside regions
--   kernel_count BIGINT, kernel_ns BIGINT, wall_ns BIGINT, wall_pct DOUBLE
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns
-- Invariant: (pass IS NULL) = (region_count = 0)
-- Invariant: pass IS NOT NULL OR (graph IS NULL AND module_path IS NULL AND name IS NULL)

WITH work AS (
    SELECT
        e.trace_id, e.device, r.pass, r.graph, e.phase,
        if(r.pass IS NULL, NULL, coalesce(m.path, e.row_name)) AS module_path,
        if(r.pass IS NULL, NULL, e.name) AS name,
        if(r.pass IS NULL, NULL, e.class) AS class,
        if(r.pass IS NULL, NULL, o.args ->> '$.kernel_file') AS kernel_file,
        r.region_id, e.piece, e.dur_ns, e.wall_ns
    FROM attributed_events AS e
    LEFT JOIN module AS m USING (trace_id, module_id)
    LEFT JOIN compiled_events AS r USING (trace_id, event_id, piece)
    LEFT JOIN event AS o ON e.trace_id = o.trace_id AND e.op_id = o.event_id
    WHERE e.trace_id IN (SELECT trace_id FROM compiled_regions)
),

summed AS (
    SELECT
        w.trace_id, w.rank, w.device, d.pass, d.graph, d.phase, d.module_path, d.name, d.class,
        d.kernel_file,
        count(DISTINCT d.region_id) AS region_count,
        count(*) FILTER (d.piece = 0) AS kernel_count,
        sum(d.dur_ns)::BIGINT AS kernel_ns,
        sum(d.wall_ns)::BIGINT AS wall_ns,
        100.0 * sum(d.wall_ns)::BIGINT / nullif(w.window_ns, 0) AS wall_pct
    FROM work AS d
    INNER JOIN device_windows AS w USING (trace_id, device)
    GROUP BY
        w.trace_id, w.rank, w.device, w.window_ns, d.pass, d.graph, d.phase, d.module_path, d.name,
        d.class, d.kernel_file
)

SELECT * EXCLUDE (trace_id)
FROM summed
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY trace_id, device
        ORDER BY
            kernel_ns DESC, pass, graph, phase, module_path, name, class, kernel_file
    ) <= $limit
ORDER BY
    rank NULLS LAST, trace_id, device, kernel_ns DESC, pass, graph, phase,
    module_path, name, class, kernel_file
