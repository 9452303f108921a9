-- Roofline points per device and data type.
-- Each roof has three points: at intensity 0.1, at the ridge, and at four times the ridge. Rates come from the data
-- sheet and, if available, from `tracekit bench` on this device.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank                     INTEGER
--   device                   VARCHAR  device number
--   dtype                    VARCHAR
--   roof                     VARCHAR  data sheet or measured
--   intensity_flop_per_byte  DOUBLE   FLOPs per byte
--   flop_per_s               DOUBLE   attainable rate, FLOP/s
--   ridge_flop_per_byte      DOUBLE   intensity at which the bound changes
--   source                   VARCHAR  source of the rates
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
    INNER JOIN peak_rates('product') AS c
        ON w.trace_id = c.trace_id AND is_listed(c.device, w.device)
    INNER JOIN peak_rates('memory') AS m
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
