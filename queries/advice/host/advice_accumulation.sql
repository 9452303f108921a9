-- Gradient all-reduce in every micro-batch of an optimizer step.
-- With gradient accumulation, only the last backward pass of the step has to reduce gradients.
--
-- Kind:     advice
-- Scope:    run

WITH optimizer_steps AS (
    SELECT trace_id, count(*) AS step_count
    FROM annotations
    WHERE name LIKE 'Optimizer.step#%'
    GROUP BY trace_id
),

reductions AS (
    SELECT c.trace_id, c.dur_ns, coalesce(l.ts_ns, c.ts_ns) AS ts_ns
    FROM collective_events AS c
    INNER JOIN attributed_events AS a USING (trace_id, event_id, piece)
    LEFT JOIN launch AS l USING (trace_id, launch_id)
    WHERE collective_of(c.class) = 'allreduce' AND c.phase = 'backward' AND c.is_transfer
),

forwards AS (
    SELECT trace_id, ts_ns
    FROM annotations
    WHERE name = 'DistributedDataParallel.forward'
),

-- A backward pass reduces several buckets, so count the forward passes before them.
reduced AS (
    SELECT
        r.trace_id,
        count(DISTINCT f.ts_ns) AS pass_count,
        sum(r.dur_ns)::BIGINT AS comm_ns
    FROM reductions AS r
    ASOF INNER JOIN forwards AS f ON r.trace_id = f.trace_id AND r.ts_ns >= f.ts_ns
    GROUP BY r.trace_id
),

passes AS (
    SELECT *, pass_count // step_count AS batch_count
    FROM reduced
    INNER JOIN optimizer_steps USING (trace_id)
    WHERE pass_count >= 2 * step_count
)

SELECT
    format(
        'Gradients are all-reduced {:,} times for {:,} optimizer steps ({})', max(pass_count),
        max(step_count), in_ms(max(comm_ns))
    ) AS what,
    'all-reduce of every micro-batch' AS place,
    format('class=comm_allreduce phase=backward x0-{:.3f}', 1 / min(batch_count)) AS change,
    max(comm_ns)::BIGINT AS cost_ns,
    'Wrap all backward passes of a step except the last in model.no_sync()' AS remedy,
    'tracekit query communication TRACE' AS evidence
FROM passes
HAVING count(*) > 0 AND max(comm_ns) > 0
