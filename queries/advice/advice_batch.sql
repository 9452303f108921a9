-- A training run that reserves less than half of the GPU memory: a larger batch may fit.
-- No gain is given, because a trace of one batch size does not show how long a step with a larger batch takes.
--
-- Kind:     advice
-- Scope:    run

WITH used AS (
    SELECT
        coalesce(
            -- The host reserves nothing.
            (SELECT nullif(max(total_reserved_bytes), 0) FROM memory),
            (SELECT max(peak_device_reserved_bytes) FROM run)
        ) AS reserved_bytes,
        (SELECT min(total_memory_bytes) FROM device WHERE total_memory_bytes > 0) AS memory_bytes
)

SELECT
    format(
        'At its peak, the run reserves {:.1f} of {:.1f} GB of GPU memory', reserved_bytes / 1e9,
        memory_bytes / 1e9
    ) AS what,
    'unused GPU memory' AS place,
    NULL::VARCHAR AS change,
    NULL::BIGINT AS cost_ns,
    'Record a second run with a larger batch: each kernel does more work, and the number of '
    || 'launches stays the same. Given traces of two batch sizes, tracekit predict '
    || '--change batch=N estimates other sizes.' AS remedy,
    'tracekit query memory TRACE' AS evidence
FROM used
WHERE
    reserved_bytes < 0.5 * memory_bytes
    AND EXISTS (FROM attributed_events WHERE phase = 'backward' AND device <> 'cpu')
