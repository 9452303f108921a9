-- Unfused cross-entropy that writes the logits of the complete vocabulary several times.
-- A fused kernel is assumed to take as long as the softmax backward kernel. Copy and fill kernels within four events of
-- a loss kernel, and at least a fifth as long, count as casts of the logits.
--
-- Kind:     advice
-- Scope:    run

WITH work AS (
    SELECT
        trace_id, phase, op_name, dur_ns,
        regexp_matches(op_name, '^aten::(_log_softmax|nll_loss)') AS is_loss,
        row_number() OVER stream AS place,
        max(if(is_loss, dur_ns, 0)) OVER near AS near_ns
    FROM attributed_events
    WHERE
        device <> 'cpu'
        AND EXISTS (FROM attributed_events WHERE starts_with(op_name, 'aten::nll_loss'))
    WINDOW
        stream AS (PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id),
        near AS (
            PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id
            ROWS BETWEEN 4 PRECEDING AND 4 FOLLOWING
        )
),

part AS (
    SELECT phase, op_name, sum(dur_ns) AS dur_ns, count(*) AS work_count
    FROM work
    WHERE
        is_loss
        OR (
            op_name IN ('aten::copy_', 'aten::fill_')
            AND near_ns > 0 AND dur_ns >= 0.2 * near_ns
        )
    GROUP BY phase, op_name
),

removable_work AS (
    SELECT
        p.*,
        (SELECT sum(w.dur_ns) FROM work AS w WHERE w.phase = p.phase AND w.op_name = p.op_name)
            AS all_ns
    FROM part AS p
    -- The softmax backward kernel represents the fused kernel, so its time remains.
    WHERE p.op_name <> 'aten::_log_softmax_backward_data'
)

SELECT
    format(
        'Cross-entropy takes {:,} kernels; all but the one that a fused loss needs take {}',
        sum(work_count), in_ms(sum(dur_ns)) || of_ranks()
    ) AS what,
    'unfused cross-entropy' AS place,
    string_agg(
        format('op={} phase={} x{:.3f}', op_name, phase, 1 - dur_ns / all_ns), '; '
        ORDER BY dur_ns DESC, op_name, phase
    ) AS change,
    sum(dur_ns)::BIGINT AS cost_ns,
    'Use Liger: LigerFusedLinearCrossEntropyLoss, or '
    || 'apply_liger_kernel_to_…(fused_linear_cross_entropy=True)' AS remedy,
    'tracekit query op_kernels TRACE' AS evidence
FROM removable_work
HAVING sum(dur_ns) > 0
