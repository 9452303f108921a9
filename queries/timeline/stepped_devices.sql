-- How many steps put work on each device of a run, and on how many devices?
-- Steps none of whose work is in the file do not count. For means over devices: stepped_devices('steps_rows') is a
-- relation with a row for each device that has a step.
--
-- Kind:     function
-- Access:   private
-- Params:
--   stepped  VARCHAR  name of a relation with rank, device, step, span_ns: the rows of steps
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu
--   step_count    BIGINT   its steps
--   device_count  BIGINT   devices that have steps

CREATE OR REPLACE MACRO stepped_devices(stepped) AS TABLE (
    SELECT rank, device, count(*) AS step_count, count(*) OVER () AS device_count
    FROM query_table(stepped)
    WHERE step IS NOT NULL AND span_ns IS NOT NULL
    GROUP BY rank, device
);
