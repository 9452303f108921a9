-- Edges of the critical path of each trace, clipped to its device window.
-- Unexplained time above 15 µs is a separate part. Parts are contiguous and add up to the window.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   part_id BIGINT, trace_id INTEGER -> trace, place BIGINT
--   of_trace_id  INTEGER -> trace.trace_id  trace in which the part ran
--   known_by VARCHAR, span_id BIGINT
--   kind         VARCHAR                    kind of the edge, or unexplained
--   start_ns BIGINT, end_ns BIGINT

WITH step AS (
    SELECT
        p.trace_id::INTEGER AS trace_id,
        p.place, e.trace_id AS of_trace_id, e.edge_id, e.kind, e.known_by,
        e.target_node // 2 AS span_id,
        if(e.rest_ns > 15000, e.rest_ns, 0) AS unexplained_ns,
        greatest(least(e.source_ns, e.target_ns), n.start_ns) AS start_ns,
        least(e.target_ns, n.end_ns) AS end_ns
    FROM graph_path AS p
    INNER JOIN graph_edge AS e USING (edge_id)
    INNER JOIN graph_end AS n ON p.trace_id = n.trace_id
),

-- Because of clock differences between ranks, an edge can lead back in time. Earlier parts then end
-- where that edge starts.
forward_step AS (
    SELECT
        * REPLACE (least(end_ns, coalesce(
            min(start_ns) OVER (
                PARTITION BY trace_id ORDER BY place
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), end_ns
        )) AS end_ns)
    FROM step
)

SELECT
    row_number() OVER (ORDER BY f.trace_id, f.place, f.is_rest) AS part_id,
    f.trace_id, f.place, f.of_trace_id, f.known_by, f.span_id,
    if(f.is_rest, 'unexplained', f.kind) AS kind,
    if(f.is_rest, f.end_ns - f.rest_ns, f.start_ns) AS start_ns,
    if(f.is_rest, f.end_ns, f.end_ns - f.rest_ns) AS end_ns
FROM (
    SELECT
        *,
        least(unexplained_ns, end_ns - start_ns) AS rest_ns,
        unnest([FALSE, TRUE]) AS is_rest
    FROM forward_step
    WHERE start_ns < end_ns
) AS f
ORDER BY part_id
