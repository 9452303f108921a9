-- Long kernels with at most half as many blocks as the GPU has SMs.
-- Other SMs are idle unless other kernels run at the same time. Kernels below 20 µs and communication are ignored.
--
-- Kind:     advice
-- Scope:    run

WITH sized AS (
    SELECT
        d.name, d.dur_ns,
        TRY_CAST(e.args ->> '$."blocks per SM"' AS DOUBLE) AS block_share
    FROM device_events AS d
    INNER JOIN event AS e USING (trace_id, event_id)
    WHERE d.category = 'kernel' AND d.kind = 'compute' AND d.dur_ns >= 20_000
),

kernels AS (
    SELECT
        name,
        count(*) AS work_count,
        avg(block_share) AS block_share,
        sum(dur_ns) AS work_ns,
        sum(dur_ns * (1 - block_share)) AS unused_ns
    FROM sized
    WHERE block_share > 0 AND block_share <= 0.5
    GROUP BY name
)

SELECT
    format(
        '{:,} kernels{} ({}) fill at most half of the SMs: {} has blocks for {:.0f} % of them',
        sum(work_count)::BIGINT, of_ranks(), in_ms(sum(work_ns)),
        arg_max(name, (unused_ns, name))[:80], 100 * arg_max(block_share, (unused_ns, name))
    ) AS what,
    'kernels with few blocks' AS place,
    NULL::VARCHAR AS change,
    mean_ns(sum(unused_ns)::BIGINT) AS cost_ns,
    'Record a second run with a larger batch or with kernels that split the work further '
    || '(split-K GEMMs, flash-decoding)' AS remedy,
    'tracekit query kernels TRACE' AS evidence
FROM kernels
HAVING count(*) > 0
