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

forwards AS (
    SELECT trace_id, count(*) AS forward_count
    FROM annotations
    WHERE name = 'DistributedDataParallel.forward'
    GROUP BY trace_id
),

numbered AS (
    SELECT *, max(message_bytes) OVER (PARTITION BY trace_id) AS most_bytes
    FROM collective_events
    WHERE collective_of(class) = 'allreduce' AND phase = 'backward' AND is_transfer
),

reductions AS (
    SELECT
        trace_id,
        count(*) FILTER (message_bytes = most_bytes) AS pass_count,
        sum(dur_ns)::BIGINT AS comm_ns
    FROM numbered
    GROUP BY trace_id
),

passes AS (
    SELECT *, pass_count // step_count AS batch_count
    FROM reductions
    INNER JOIN optimizer_steps USING (trace_id)
    INNER JOIN forwards USING (trace_id)
    WHERE pass_count >= 2 * step_count AND forward_count >= 2 * step_count
)

SELECT
    format(
        'Gradients are all-reduced {} times for {} optimizer steps ({})', max(pass_count),
        max(step_count), in_ms(max(comm_ns))
    ) AS what,
    'all-reduce of every micro-batch' AS place,
    format('class=comm_allreduce phase=backward x0-{:.3f}', 1 / min(batch_count)) AS change,
    max(comm_ns)::BIGINT AS cost_ns,
    'Wrap all backward passes of a step except the last in model.no_sync()' AS remedy,
    'tracekit query communication TRACE' AS evidence
FROM passes
HAVING count(*) > 0 AND max(comm_ns) > 0
