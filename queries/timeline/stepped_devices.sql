-- Number of steps with work per device, for means over devices.
-- Steps without recorded work do not count.
--
-- Kind:     function
-- Access:   private
-- Params:
--   stepped  VARCHAR  name of a relation with rank, device, step, span_ns (rows of steps)
-- Columns:
--   rank INTEGER, device VARCHAR, step_count BIGINT, device_count BIGINT

CREATE OR REPLACE MACRO stepped_devices(stepped) AS TABLE (
    SELECT rank, device, count(*) AS step_count, count(*) OVER () AS device_count
    FROM query_table(stepped)
    WHERE step IS NOT NULL AND span_ns IS NOT NULL
    GROUP BY rank, device
);
