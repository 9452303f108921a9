-- Kernels that cast between fp32 and 16-bit types, for example for autocast.
-- 16-bit weights need no casts, but activations that norms or losses widen to fp32 do. The gain assumes that half to
-- all of the casts disappear.
--
-- Kind:     advice
-- Scope:    run

WITH copy AS (
    SELECT
        a.phase, a.dur_ns,
        list_sort(json_extract_string(e.args, ['$."Input type"[0]', '$."Input type"[1]']))
        IN (['c10::BFloat16', 'float'], ['c10::Half', 'float']) AS is_cast
    FROM attributed_events AS a
    INNER JOIN record AS e ON a.trace_id = e.trace_id AND a.op_id = e.event_id
    WHERE a.device <> 'cpu' AND a.op_name = 'aten::copy_' AND a.phase IN ('forward', 'backward')
),

phases AS (
    SELECT
        phase,
        sum(dur_ns) AS copy_ns,
        count(*) FILTER (is_cast) AS cast_count,
        coalesce(sum(dur_ns) FILTER (is_cast), 0)::BIGINT AS cast_ns
    FROM copy
    GROUP BY phase
    HAVING cast_ns > 0
)

SELECT
    format(
        '{:,} kernels cast between fp32 and 16-bit types ({}{})', sum(cast_count),
        in_ms(sum(cast_ns)), of_ranks()
    )
        AS what,
    'casts in ' || string_agg(phase, ' and ' ORDER BY cast_ns DESC, phase) AS place,
    string_agg(
        format(
            'op=aten::copy_ phase={} x{:.3f}-{:.3f}', phase, 1 - cast_ns / copy_ns,
            1 - cast_ns / copy_ns / 2
        ), '; ' ORDER BY cast_ns DESC, phase
    ) AS change,
    sum(cast_ns)::BIGINT AS cost_ns,
    'Use bf16 weights with an optimizer that keeps fp32 copies (model.to(torch.bfloat16), FSDP '
    || 'MixedPrecisionPolicy) instead of autocast, or fuse the casts with torch.compile' AS remedy,
    'tracekit query op_kernels TRACE' AS evidence
FROM phases
HAVING count(*) > 0
