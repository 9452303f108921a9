-- Do copies of an offloaded optimizer hold the step up?
-- Copies in the phase of the optimizer, to the device and back, while nothing else runs.
--
-- Kind:     analysis
-- Scope:    run
-- Requires: advice_text, attributed_events
-- Columns:
--   what      VARCHAR  what was seen
--   place     VARCHAR  where
--   change    VARCHAR  what `tracekit predict` is asked, changes with "; " between them; NULL where it is not recorded
--   at_most   VARCHAR  the same for the upper end of the gain; NULL where that is no other
--   cost_ns   BIGINT   how long that took, ns; NULL where it is not known
--   remedy    VARCHAR  what to do
--   evidence  VARCHAR  the command that shows it
-- Invariant: cost_ns IS NULL OR cost_ns > 0

SELECT
    format('{} copies in the optimizer, {} of them exposed', count(*), in_ms(sum(wall_ns))) AS what,
    'phase optimizer' AS place,
    'class=memcpy_h2d phase=optimizer remove; class=memcpy_d2h phase=optimizer remove' AS change,
    NULL::VARCHAR AS at_most,
    sum(wall_ns)::BIGINT AS cost_ns,
    'keep the optimizer on the device where memory allows (collect --opt without O), or '
    || 'ZeRO over more ranks' AS remedy,
    'tracekit query memcpy TRACE' AS evidence
FROM attributed_events
WHERE phase = 'optimizer' AND class IN ('memcpy_h2d', 'memcpy_d2h')
HAVING count(DISTINCT class) = 2 AND sum(wall_ns) > 0
