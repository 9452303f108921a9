-- Matrix multiplications in fp32 or fp64 that a narrower data type would speed up.
-- Reports fp32 (including TF32) on devices with known peak rates, and fp64 on any device. A GEMM in a type of half the
-- width is assumed to take half the time.
--
-- Kind:     advice
-- Scope:    run

WITH products AS (
    SELECT
        a.op_name,
        json_extract_string(e.args, '$."Input type"[0]') AS dtype,
        count(*) FILTER (a.piece = 0) AS work_count,
        bool_or(NOT regexp_matches(a.name, '(?i)tf32|s1688')) AS is_full,
        sum(a.dur_ns)::BIGINT AS work_ns
    FROM attributed_events AS a
    INNER JOIN record AS e ON a.trace_id = e.trace_id AND a.op_id = e.event_id
    WHERE
        (is_gemm(a.class) OR is_conv(a.class))
        AND (
            dtype = 'double'
            OR (dtype = 'float' AND a.trace_id IN (SELECT trace_id FROM device_peak))
        )
    GROUP BY ALL
),

typed AS (
    SELECT
        dtype, sum(work_count) AS work_count, sum(work_ns)::BIGINT AS work_ns,
        bool_or(is_full) AS is_full,
        string_agg(op_name, ', ' ORDER BY work_ns DESC, op_name) AS ops,
        string_agg(
            format('class=gemm op={} x0.5', chosen_name(op_name)),
            '; ' ORDER BY work_ns DESC, op_name
        ) AS halved
    FROM products
    GROUP BY dtype
)

SELECT
    format(
        '{:,} GEMMs or convolutions of type {} take {}{}', work_count, dtype, in_ms(work_ns),
        of_ranks()
    ) AS what,
    dtype || ' GEMMs in ' || ops AS place,
    if(
        dtype = 'float',
        'precision=' || if('bf16' IN (SELECT dtype FROM device_peak), 'bf16', 'fp16'),
        halved || '; kind=compute x0.4-1'
    ) AS change,
    work_ns AS cost_ns,
    if(
        dtype = 'float',
        'Use torch.autocast(device_type, dtype=torch.bfloat16) or bf16 weights'
        || if(is_full, ', or torch.set_float32_matmul_precision("high")', ''),
        'Use float32: find the source of the 64-bit tensors, such as NumPy arrays'
    ) AS remedy,
    'tracekit query gemms TRACE' AS evidence
FROM typed
WHERE work_ns > 0
