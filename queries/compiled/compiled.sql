-- What ran inside of the regions that torch.compile compiled, by graph and by the file of generated code?
-- Modules inside of such a region are not called, so nothing marks their time: the region itself, its sequence numbers
-- and the arguments of its kernels tell what is known. The rows without a pass hold what ran outside of all regions:
-- wall_ns adds up to the busy time of the device where limit is 0. A trace without such regions has no rows.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit  BIGINT = 30    the rows of each device that took longest; 0 for all
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu
--   pass          VARCHAR  forward or backward pass of a region; NULL outside of all
--   graph         VARCHAR  number of the graph, frame/entry, as in the name of its region; NULL where nothing tells
--   phase         VARCHAR  phase
--   module_path   VARCHAR  path or row in modules where this time is; NULL outside of all regions
--   name          VARCHAR  kernel, copy or op; NULL outside of all regions
--   class         VARCHAR  its class, as in kernel_classes; NULL outside of all regions
--   kernel_file   VARCHAR  file of generated code that holds the kernel, where its op tells
--   region_count  BIGINT   spans of regions that launched it; 0 outside
--   kernel_count  BIGINT   device events
--   kernel_ns     BIGINT   sum of their durations, ns
--   wall_ns       BIGINT   busy time that is theirs, ns
--   wall_pct      DOUBLE   wall_ns of the device's window, 0 to 100
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
