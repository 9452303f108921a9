-- Step time without the profiler, from the run manifest or `--plain-step`, and its 10th and 90th percentiles if known.
--
-- Kind:     table
-- Made:     when asked for
-- Access:   private
-- Columns:
--   plain_ns BIGINT, low_ns BIGINT, high_ns BIGINT, source VARCHAR

SELECT s.plain_ns, s.low_ns, s.high_ns, 'measured' AS source
FROM run_step() AS s
SEMI JOIN trace AS t USING (run_id)
WHERE s.plain_ns > 0
QUALIFY count(*) OVER () = 1
