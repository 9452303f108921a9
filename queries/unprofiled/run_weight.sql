-- Durations of dependency edges in the unprofiled run (quick, usual, slow), and their unexplained parts (rest).
-- If a measured step is known, the factor in `run_basis` scales the host's own time. Otherwise, the bounds of
-- `unprofiled_weight` are the quick and slow weights. The table is empty unless replays are valid for all traces
-- (is_replayed in `run_basis`).
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   edge_id BIGINT, quick_ns BIGINT, quick_rest_ns BIGINT, usual_ns BIGINT, usual_rest_ns BIGINT
--   slow_ns BIGINT, slow_rest_ns BIGINT

WITH basis AS (
    SELECT
        bool_and(is_replayed) AS is_replayed,
        any_value(measured_ns) IS NOT NULL AS is_measured,
        any_value(factor) AS factor
    FROM run_basis
),

weight AS (
    SELECT
        g.*,
        p.usual_ns + coalesce((b.factor - 1) * p.host_ns, 0) AS run_ns,
        if(b.is_measured, run_ns, p.low_ns) * coalesce(g.quick_ns / nullif(g.usual_ns, 0), 1)
            AS least_ns,
        if(b.is_measured, run_ns, p.high_ns) * coalesce(g.slow_ns / nullif(g.usual_ns, 0), 1)
            AS most_ns
    FROM graph_weight AS g
    INNER JOIN unprofiled_weight AS p USING (edge_id)
    INNER JOIN basis AS b ON b.is_replayed
)

SELECT
    edge_id,
    round(least(least_ns, run_ns))::BIGINT AS quick_ns,
    quick_rest_ns,
    round(run_ns)::BIGINT AS usual_ns,
    usual_rest_ns,
    round(greatest(most_ns, run_ns))::BIGINT AS slow_ns,
    slow_rest_ns
FROM weight
ORDER BY edge_id
