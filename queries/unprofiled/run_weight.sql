-- How much lies between the nodes of each edge at least in the run itself, without the profiler?
-- As table graph_weight has it of the recording: quick, usual and slow. Where a step was measured, the host's own time has the
-- factor of table run_basis; else the lower and the higher weights of table plain_weight are the quick and the slow ones.
-- Without a row where the run is not told: table run_basis says why.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   edge_id         BIGINT  the edge
--   quick_ns        BIGINT  its weight at least, ns
--   quick_rest_ns   BIGINT  its rest, as recorded, ns
--   usual_ns        BIGINT  its usual weight, ns
--   usual_rest_ns   BIGINT  its rest, ns
--   slow_ns         BIGINT  its weight at most, ns
--   slow_rest_ns    BIGINT  its rest, ns

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
        p.plain_ns + coalesce((b.factor - 1) * p.host_ns, 0) AS run_ns,
        if(b.is_measured, run_ns, p.low_ns) * coalesce(g.quick_ns / nullif(g.usual_ns, 0), 1)
            AS least_ns,
        if(b.is_measured, run_ns, p.high_ns) * coalesce(g.slow_ns / nullif(g.usual_ns, 0), 1)
            AS most_ns
    FROM graph_weight AS g
    INNER JOIN plain_weight AS p USING (edge_id)
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
