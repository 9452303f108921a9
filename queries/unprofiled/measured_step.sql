-- Step time measured without the profiler, with its 10th and 90th percentiles if known.
-- The values come from the run manifest or `--unprofiled-step`.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   step_ns BIGINT, low_ns BIGINT, high_ns BIGINT, source VARCHAR

SELECT s.median_ns AS step_ns, s.low_ns, s.high_ns, 'measured' AS source
FROM run_step() AS s
SEMI JOIN trace AS t USING (run_id)
WHERE s.median_ns > 0
QUALIFY count(*) OVER () = 1
