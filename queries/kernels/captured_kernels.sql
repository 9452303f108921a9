-- Nodes of captured graphs with their time in all replays, per device.
-- Covers CUDA and HIP graphs with node numbers (graph id, graph node id). A graph that is instantiated again counts as
-- new.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit  BIGINT = 30  number of rows per device, longest first; 0 for all
-- Columns:
--   rank      INTEGER
--   device    VARCHAR  device number
--   graph_id  BIGINT   graph number, as recorded
--   node_id   BIGINT   node number within the graph
--   name      VARCHAR  kernel, copy, or memset
--   class VARCHAR, kernel_count BIGINT, kernel_ns BIGINT, mean_ns DOUBLE, min_ns BIGINT, max_ns BIGINT
--   wall_ns BIGINT
-- Invariant: min_ns <= mean_ns AND mean_ns <= max_ns AND 0 <= wall_ns AND wall_ns <= kernel_ns
-- Empty: no device event has a graph node number

WITH numbered AS (
    SELECT
        d.trace_id, d.device, d.name, d.class, d.dur_ns, d.wall_ns,
        try_cast(e.args ->> '$."graph id"' AS BIGINT) AS graph_id,
        try_cast(e.args ->> '$."graph node id"' AS BIGINT) AS node_id
    FROM attributed_events AS d
    INNER JOIN event AS e USING (trace_id, event_id)
    WHERE d.device <> 'cpu'
),

summed AS (
    SELECT
        w.trace_id, w.rank, w.device, n.graph_id, n.node_id, n.name, n.class,
        count(*) AS kernel_count,
        sum(n.dur_ns)::BIGINT AS kernel_ns,
        sum(n.dur_ns)::BIGINT / count(*) AS mean_ns,
        min(n.dur_ns) AS min_ns,
        max(n.dur_ns) AS max_ns,
        sum(n.wall_ns)::BIGINT AS wall_ns
    FROM numbered AS n
    INNER JOIN device_windows AS w USING (trace_id, device)
    -- Work outside graphs has node number 0.
    WHERE n.node_id > 0
    GROUP BY ALL
)

SELECT * EXCLUDE (trace_id)
FROM summed
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY trace_id, device ORDER BY kernel_ns DESC, graph_id, node_id, name
    ) <= $limit
ORDER BY rank NULLS LAST, trace_id, device, kernel_ns DESC, graph_id, node_id, name
