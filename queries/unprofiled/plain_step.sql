-- Measured step time without the profiler.
-- Taken from the run manifest, or from `--plain-step`.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   plain_ns  BIGINT
--   low_ns   BIGINT   10th percentile; NULL if only one figure is known
--   high_ns  BIGINT   90th percentile
--   source   VARCHAR  given or measured

SELECT s.plain_ns, s.low_ns, s.high_ns, 'measured' AS source
FROM run_step() AS s
SEMI JOIN trace AS t USING (run_id)
WHERE s.plain_ns > 0
QUALIFY count(*) OVER () = 1
