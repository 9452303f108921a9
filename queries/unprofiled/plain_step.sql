-- What does a step of the run take without the profiler, where somebody measured it?
-- The median of the steps that the run's manifest has, or its own figure. Where a step is given (--plain-step), that is
-- the row.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   plain_ns  BIGINT  the step, ns
--   low_ns    BIGINT  the tenth percentile of the steps, ns; NULL where only one figure is known
--   high_ns   BIGINT  the ninetieth, ns
--   source    VARCHAR  given or measured

WITH measured AS (
    SELECT s.plain_ns, s.low_ns, s.high_ns, 'measured' AS source
    FROM run_step() AS s
    SEMI JOIN trace AS t USING (run_id)
    WHERE s.plain_ns > 0
    QUALIFY count(*) OVER () = 1
)

SELECT plain_ns, low_ns, high_ns, source
FROM measured
