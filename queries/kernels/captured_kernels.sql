-- How long does each node of a captured graph take, over all of its replays?
-- Nodes of CUDA graphs, and of HIP graphs, as newer profilers number them (graph id, graph node id). A graph that is
-- instantiated again is another one.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit  BIGINT = 30  rows of each device, those that took longest; 0 for all
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device
--   graph_id      BIGINT   number of the graph, as the file has it
--   node_id       BIGINT   number of the node in it
--   name          VARCHAR  kernel, copy or memset
--   class         VARCHAR  its class, as in kernel_classes
--   kernel_count  BIGINT   how often it ran
--   kernel_ns     BIGINT   sum of its durations, ns
--   mean_ns       DOUBLE   mean duration, ns
--   min_ns        BIGINT   shortest duration, ns
--   max_ns        BIGINT   longest duration, ns
--   wall_ns       BIGINT   busy time that is its own, ns
-- Invariant: min_ns <= mean_ns AND mean_ns <= max_ns AND 0 <= wall_ns AND wall_ns <= kernel_ns
-- Empty: no work of a device says which node of a graph it is

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
    -- Work that no graph launched has the number 0.
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
