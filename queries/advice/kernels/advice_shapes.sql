-- 16-bit matrix multiplications with sizes that do not suit tensor cores.
-- Tensor cores need N and K to be multiples of 8. The time after padding is estimated from the fastest aligned GEMM
-- that has at most twice as many operations and ran at least three times.
--
-- Kind:     advice
-- Scope:    run

WITH ops AS (
    SELECT
        a.trace_id, a.op_id, a.op_name, a.name, sum(a.dur_ns)::BIGINT AS work_ns,
        if(a.op_name IN ('aten::addmm', 'aten::baddbmm'), 1, 0) AS first_matrix
    FROM attributed_events AS a
    WHERE
        is_gemm(a.class)
        AND a.op_name IN ('aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm')
        AND a.trace_id IN (SELECT trace_id FROM device_peak)
    GROUP BY ALL
),

described AS (
    SELECT
        o.*,
        json_extract(e.args, format('$."Input Dims"[{}]', o.first_matrix))::JSON[] AS left_dims,
        json_extract(e.args, format('$."Input Dims"[{}]', o.first_matrix + 1))::JSON[]
            AS right_dims
    FROM ops AS o
    INNER JOIN record AS e ON o.trace_id = e.trace_id AND o.op_id = e.event_id
    WHERE
        json_extract_string(e.args, format('$."Input type"[{}]', o.first_matrix))
        IN ('c10::Half', 'c10::BFloat16')
),

sized AS (
    SELECT
        *,
        TRY_CAST(left_dims[-2] AS DOUBLE) AS m,
        TRY_CAST(left_dims[-1] AS DOUBLE) AS k,
        TRY_CAST(right_dims[-1] AS DOUBLE) AS n,
        if(json_array_length(left_dims) = 3, TRY_CAST(left_dims[0] AS DOUBLE), 1) AS batch
    FROM described
),

products AS (
    SELECT
        trace_id, op_name, name, work_ns,
        format('{:.0f} x {:.0f} x {:.0f}', m, n, k) AS size,
        2 * m * n * k * batch AS flops,
        8 * ceil(n / 8) * 8 * ceil(k / 8) / (n * k) AS padding
    FROM sized
    WHERE m > 0 AND n > 0 AND k > 0 AND batch > 0 AND work_ns > 0
),

suited AS (
    SELECT trace_id, flops, flops * 1e9 / median(work_ns) AS flop_per_s
    FROM products
    WHERE padding = 1
    GROUP BY trace_id, op_name, size, flops
    HAVING count(*) >= 3
),

aligned_rate AS (
    SELECT p.trace_id, p.flops, max(s.flop_per_s) AS flop_per_s
    FROM (SELECT DISTINCT trace_id, flops FROM products WHERE padding > 1) AS p
    INNER JOIN suited AS s ON p.trace_id = s.trace_id AND s.flops <= 2 * p.flops
    GROUP BY ALL
),

-- A change selects kernels by name, so sum all work of the kernel.
kernels AS (
    SELECT
        p.op_name, p.name,
        arg_max(p.size, p.work_ns) FILTER (r.flops IS NOT NULL) AS size,
        count(*) FILTER (r.flops IS NOT NULL) AS product_count,
        sum(p.work_ns) AS work_ns,
        sum(
            least(
                coalesce(p.flops * p.padding * 1e9 / r.flop_per_s, p.work_ns),
                p.work_ns
            )
        ) AS left_ns
    FROM products AS p
    LEFT JOIN aligned_rate AS r
        ON p.trace_id = r.trace_id AND p.flops = r.flops AND p.padding > 1
    GROUP BY p.op_name, p.name
    HAVING count(*) FILTER (r.flops IS NOT NULL) > 0
)

SELECT
    format(
        '{:,} GEMMs have dimensions that are not multiples of 8, such as {} (M x N x K); at the '
        || 'rate of aligned GEMMs they would take {} less',
        sum(product_count), arg_max(size, work_ns - left_ns),
        in_ms(sum(work_ns - left_ns)) || of_ranks()
    ) AS what,
    'unaligned GEMM shapes in ' || string_agg(DISTINCT op_name, ', ' ORDER BY op_name) AS place,
    string_agg(
        format(
            'class=gemm op={} name={} x{:.3f}', op_name, chosen_name(name), left_ns / work_ns
        ), '; ' ORDER BY work_ns - left_ns DESC, op_name, name
    ) AS change,
    sum(work_ns - left_ns)::BIGINT AS cost_ns,
    'Pad the vocabulary, hidden sizes, and heads to multiples of 64 (at least 8): '
    || 'model.resize_token_embeddings(pad_to_multiple_of=64)' AS remedy,
    'tracekit query gemms TRACE' AS evidence
FROM kernels
WHERE left_ns < 0.99 * work_ns
HAVING count(*) > 0
