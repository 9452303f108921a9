-- Difference between the end of a collective on a rank and its median end on all ranks.
-- Only collectives that all ranks leave at about the same time, and that all ranks of the run recorded.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER -> trace, device VARCHAR, difference_ns BIGINT

SELECT
    m.trace_id, m.device,
    m.end_ns + t.base_time_ns - quantile_disc(m.end_ns + t.base_time_ns, 0.5)
        OVER (PARTITION BY m.match_id) AS difference_ns
FROM collective_matches AS m
INNER JOIN trace AS t USING (trace_id)
WHERE
    m.reason IS NULL
    AND collective_of(m.class) IN ('allreduce', 'allgather', 'reducescatter', 'alltoall')
    AND m.rank_count = (SELECT count(DISTINCT coalesce(rank, -trace_id - 1)) FROM trace)
    AND m.rank_count > 1
