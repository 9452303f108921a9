-- Convolution biases that a following batch norm cancels.
-- Batch norm subtracts the mean of each channel, which also removes any bias. On accelerators, the bias costs an add
-- kernel in the forward pass and a sum kernel in the backward pass. Only convolutions with such kernels count.
--
-- Kind:     advice
-- Scope:    run

WITH bias_work AS MATERIALIZED (
    SELECT
        (e.trace_id, e.pid, e.tid) AS part,
        e.event_id AS id, e.ts_ns AS at_ns,
        a.trace_id, a.name, a.op_name, a.dur_ns
    FROM attributed_events AS a
    INNER JOIN event AS e ON a.trace_id = e.trace_id AND a.op_id = e.event_id
    WHERE a.device <> 'cpu' AND a.kind = 'compute' AND a.op_name IN ('aten::add_', 'aten::sum')
),

convolution AS MATERIALIZED (
    SELECT
        (trace_id, pid, tid) AS part,
        event_id AS id, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns,
        trace_id, pid, tid, name = 'aten::convolution_backward' AS is_backward
    FROM event
    WHERE
        is_op(category)
        AND name IN ('aten::convolution', 'aten::convolution_backward')
        AND EXISTS (FROM bias_work)
),

-- Next op after the convolution. Batch norm may first increment its batch counter (aten::add_).
next_op AS (
    SELECT trace_id, pid, tid, ts_ns, name
    FROM event
    WHERE
        is_op(category)
        AND starts_with(name, 'aten::')
        AND name NOT IN ('aten::add_', 'aten::detach')
        AND EXISTS (FROM convolution)
),

biased AS (
    SELECT
        a.trace_id, a.name, a.op_name, a.dur_ns, c.is_backward,
        coalesce(n.name LIKE '%batch_norm%', FALSE) AS is_normed
    FROM interval_innermost('bias_work', 'convolution') AS i
    INNER JOIN bias_work AS a USING (id)
    INNER JOIN convolution AS c ON a.trace_id = c.trace_id AND i.span_id = c.id
    ASOF LEFT JOIN next_op AS n
        ON c.trace_id = n.trace_id AND c.pid = n.pid AND c.tid = n.tid AND c.end_ns <= n.ts_ns
),

-- In the backward pass, the convolution of a sum kernel is unknown, so use the share of
-- convolutions with batch norm in the forward pass.
share AS (SELECT avg(is_normed::INTEGER) AS normed FROM biased WHERE NOT is_backward),

saved_work AS (
    SELECT
        b.name, b.op_name,
        count(*) FILTER (b.is_normed) AS work_count,
        sum(b.dur_ns * if(b.is_backward, s.normed, b.is_normed::INTEGER)) AS saved_ns
    FROM biased AS b, share AS s
    WHERE s.normed > 0
    GROUP BY ALL
),

kernels AS (
    SELECT g.*, sum(a.dur_ns) AS all_ns
    FROM saved_work AS g
    INNER JOIN bias_work AS a USING (name, op_name)
    WHERE g.saved_ns > 0
    GROUP BY ALL
)

SELECT
    format(
        '{:,} convolutions before a batch norm add a bias; the bias and its gradient take {}',
        sum(work_count),
        in_ms(sum(saved_ns)) || of_ranks()
    ) AS what,
    'convolution bias before batch norm' AS place,
    string_agg(
        format('op={} name={} x{:.3f}', op_name, chosen_name(name), 1 - saved_ns / all_ns), '; '
        ORDER BY op_name, name
    ) AS change,
    sum(saved_ns)::BIGINT AS cost_ns,
    'Use torch.nn.Conv2d(..., bias=False)' AS remedy,
    'tracekit query op_kernels TRACE' AS evidence
FROM kernels
HAVING count(*) > 0
