-- Does the dependency graph give the window of each rank back, from edges and durations alone?
-- Every start is worked out again: typical latencies and gaps, and nothing of what the graph does not explain. What is unexplained lies
-- on the critical path here; a prediction is worth no more than this one.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   rank            INTEGER  global rank
--   recorded_ns     BIGINT   device window as recorded, ns
--   replayed_ns     BIGINT   device window as replayed, ns
--   error_pct       DOUBLE   replayed_ns less recorded_ns, of recorded_ns
--   unexplained_ns  BIGINT   on the critical path, what no edge explains, above 15 µs each, ns
--   assumed_ns      BIGINT   on the critical path, what is only assumed: late starts, work without a launch, ns
--   inferred_pct    DOUBLE   of the critical path, what rests on edges that are inferred or assumed, 0 to 100
-- Empty: device_events: no work of a device is recorded

WITH replayed AS (
    SELECT
        s.trace_id,
        max(r.at_ns) FILTER (WHERE r.node % 2 = 1) - min(r.at_ns) FILTER (WHERE r.node % 2 = 0)
            AS replayed_ns
    FROM graph_span AS s
    INNER JOIN graph_replay AS r ON s.span_id = r.node // 2 AND r.node > 0
    WHERE s.kind = 'work'
    GROUP BY s.trace_id
),

path AS (
    SELECT
        trace_id,
        coalesce(sum(end_ns - start_ns) FILTER (WHERE kind = 'unexplained'), 0)::BIGINT
            AS unexplained_ns,
        coalesce(
            sum(end_ns - start_ns)
            FILTER (WHERE known_by = 'assumed' AND kind <> 'unexplained'),
            0
        )::BIGINT AS assumed_ns,
        coalesce(sum(end_ns - start_ns) FILTER (WHERE known_by <> 'recorded'), 0)::BIGINT
            AS inferred_ns
    FROM path_part
    WHERE start_ns < end_ns
    GROUP BY trace_id
)

SELECT
    t.rank,
    n.end_ns - n.start_ns AS recorded_ns,
    r.replayed_ns,
    100.0 * (r.replayed_ns - recorded_ns) / nullif(recorded_ns, 0) AS error_pct,
    p.unexplained_ns, p.assumed_ns,
    100.0 * p.inferred_ns / nullif(recorded_ns, 0) AS inferred_pct
FROM graph_end AS n
INNER JOIN trace AS t USING (trace_id)
INNER JOIN replayed AS r USING (trace_id)
INNER JOIN path AS p USING (trace_id)
ORDER BY t.rank NULLS LAST, n.trace_id
