-- Time shift that puts each trace on the common clock of the dependency graph.
-- The shift is the base time of the file, minus the clock offset of the rank (as in `clock_offsets`) if that offset
-- exceeds its error.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id  INTEGER -> trace
--   shift_ns  BIGINT  shift to add to all times of the trace, ns

WITH offset_of AS (
    SELECT
        trace_id,
        quantile_disc(difference_ns, 0.5) AS offset_ns,
        max(difference_ns) - min(difference_ns) AS spread_ns
    FROM collective_ends
    GROUP BY trace_id
)

SELECT
    t.trace_id,
    coalesce(t.base_time_ns, 0)
    - min(coalesce(t.base_time_ns, 0)) OVER ()
    - coalesce(if(abs(o.offset_ns) > max(o.spread_ns) OVER (), o.offset_ns, 0), 0) AS shift_ns
FROM trace AS t
LEFT JOIN offset_of AS o USING (trace_id)
ORDER BY t.trace_id
