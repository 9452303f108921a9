-- Which rates could an op reach at most on each device, by its operations per byte?
-- The roofs of a device, one for each type: at few operations per byte its memory is the bound, from the ridge on its
-- arithmetic. Three points draw a roof: a tenth of an operation per byte, the ridge, and four times that. They are by the
-- data sheet, and where tracekit bench measured this very device, by what it reached.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank                     INTEGER  global rank
--   device                   VARCHAR  number of the device
--   dtype                    VARCHAR  type of the operands
--   roof                     VARCHAR  data sheet or measured
--   intensity_flop_per_byte  DOUBLE   operations per byte
--   flop_per_s               DOUBLE   the most that can be reached there, operations/s
--   ridge_flop_per_byte      DOUBLE   where the bound changes
--   source                   VARCHAR  where the rates are from
-- Invariant: intensity_flop_per_byte > 0 AND flop_per_s > 0

WITH roof AS (
    SELECT
        w.trace_id, w.rank, w.device, p.dtype,
        'data sheet' AS roof,
        p.flop_per_s, p.memory_bytes_per_s, p.source
    FROM device_windows AS w
    INNER JOIN device_peak AS p ON w.trace_id = p.trace_id AND p.device IN (w.device, '*')
    UNION ALL
    SELECT
        w.trace_id, w.rank, w.device, c.dtype,
        'measured' AS roof,
        c.flop_per_s, m.bytes_per_s AS memory_bytes_per_s, c.source
    FROM device_windows AS w
    INNER JOIN ceilings('product') AS c
        ON w.trace_id = c.trace_id AND is_listed(c.device, w.device)
    INNER JOIN ceilings('memory') AS m
        ON w.trace_id = m.trace_id AND is_listed(m.device, w.device)
),

ridged AS (
    SELECT *, flop_per_s / memory_bytes_per_s AS ridge
    FROM roof
    WHERE flop_per_s > 0 AND memory_bytes_per_s > 0
),

point AS (
    SELECT *, unnest([0.1, ridge, 4 * ridge]) AS intensity
    FROM ridged
)

SELECT
    rank, device, dtype, roof, intensity AS intensity_flop_per_byte,
    least(intensity * memory_bytes_per_s, flop_per_s) AS flop_per_s,
    ridge AS ridge_flop_per_byte, source
FROM point
ORDER BY rank NULLS LAST, trace_id, device, dtype, roof, intensity
