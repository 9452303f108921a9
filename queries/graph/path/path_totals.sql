-- Critical path time of each rank, grouped by one attribute of its segments.
-- A share of the path is not a gain; see `slack`.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   critical_path per total
-- Params:
--   by  VARCHAR{kind|phase|module|class|op|name|rank|known_by} = kind  grouping attribute
-- Columns:
--   rank         INTEGER  rank at whose last device event the path ends
--   value        VARCHAR  value of the attribute; (none) if NULL
--   piece_count  BIGINT   number of segments
--   path_ns      BIGINT   time on the path, ns; adds up to the window of the rank
--   path_pct     DOUBLE   share of the window, 0 to 100
-- View:
--   chart  form=bars title="Critical path breakdown" y=value x=path_ns
--          axis="time on the critical path of all ranks" colour=blue tip=rank,value,path_ns,path_pct,piece_count
-- Empty: device_events: no GPU work was recorded

SELECT
    t.rank,
    coalesce(
        CASE $by
            WHEN 'kind' THEN p.kind
            WHEN 'phase' THEN p.phase
            WHEN 'module' THEN p.module_path
            WHEN 'class' THEN p.class
            WHEN 'op' THEN coalesce(o.name, if(p.class IS NULL, p.name, NULL))
            WHEN 'name' THEN p.name
            WHEN 'rank' THEN f.rank::VARCHAR
            ELSE p.known_by
        END,
        '(none)'
    ) AS value,
    count(*) AS piece_count,
    sum(p.end_ns - p.start_ns)::BIGINT AS path_ns,
    100.0 * sum(p.end_ns - p.start_ns) / any_value(n.end_ns - n.start_ns) AS path_pct
FROM path_piece AS p
INNER JOIN graph_end AS n USING (trace_id)
INNER JOIN trace AS t USING (trace_id)
INNER JOIN trace AS f ON p.of_trace_id = f.trace_id
LEFT JOIN record AS o ON p.of_trace_id = o.trace_id AND p.op_id = o.event_id
GROUP BY p.trace_id, t.rank, value
ORDER BY t.rank NULLS LAST, p.trace_id, path_ns DESC, value
