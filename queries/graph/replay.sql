-- Device window of each rank, recorded and replayed.
-- The replay uses typical latencies and gaps, without unexplained time. Predictions are at most as accurate as the
-- replay.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   rank            INTEGER
--   recorded_ns     BIGINT  recorded device window, ns
--   replayed_ns     BIGINT  replayed device window, ns
--   error_pct       DOUBLE  (replayed_ns - recorded_ns) / recorded_ns, percent
--   unexplained_ns  BIGINT  unexplained time on the critical path, in intervals above 15 µs, ns
--   assumed_ns      BIGINT  time on the critical path with an assumed cause (late starts, work without a launch), ns
--   inferred_pct    DOUBLE  share of the critical path on inferred or assumed edges, 0 to 100
-- Empty: device_events: no GPU work was recorded

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
