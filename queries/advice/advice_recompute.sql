-- Cost of recomputing activations in the backward pass.
-- If allocator events are recorded, the activations that recomputation frees are compared with the free memory, except
-- a reserve of 5 %. If the activations do not fit, the advice suggests recomputation of only some layers.
--
-- Kind:     advice
-- Scope:    run

WITH passes AS (
    SELECT a.trace_id, l.ts_ns
    FROM attributed_events AS a
    INNER JOIN launch AS l USING (trace_id, launch_id)
    WHERE a.phase = 'backward' AND EXISTS (FROM memory_event WHERE phase = 'recompute')
),

recomputed_memory AS (
    SELECT
        sum(m.bytes) AS bytes,
        coalesce(sum(m.bytes) FILTER (m.is_at_peak), 0) AS peak_bytes
    FROM memory_event AS m
    ASOF INNER JOIN passes AS p ON m.trace_id = p.trace_id AND m.ts_ns <= p.ts_ns
    LEFT JOIN memory_event AS r
        ON m.trace_id = r.trace_id AND m.device = r.device AND m.end_place = r.place
    WHERE
        m.phase = 'recompute'
        AND m.bytes > 0
        AND m.device <> 'cpu'
        AND coalesce(r.ts_ns > p.ts_ns, TRUE)
    GROUP BY m.trace_id, m.device, m.step
),

totals AS (
    SELECT
        (SELECT sum(dur_ns)::BIGINT FROM attributed_events WHERE phase = 'recompute') AS work_ns,
        (SELECT coalesce(sum(idle_ns), 0)::BIGINT FROM idle_gap WHERE phase = 'recompute')
            AS idle_ns,
        -- The host reserves nothing.
        (SELECT nullif(max(total_reserved_bytes), 0) FROM memory) AS reserved_bytes,
        (SELECT min(total_memory_bytes) FROM device WHERE total_memory_bytes > 0) AS memory_bytes,
        (SELECT max(bytes) - max(peak_bytes) FROM recomputed_memory) AS needed_bytes
),

room AS (
    SELECT
        *,
        greatest(0.95 * memory_bytes - reserved_bytes, 0) AS free_bytes,
        coalesce(
            least(floor(100 * free_bytes / nullif(needed_bytes, 0)) / 100, 1), 1
        ) AS share
    FROM totals
)

SELECT
    format('Recomputation takes {}{}', in_ms(work_ns), of_ranks())
    || if(idle_ns >= 100_000, format(', plus {} of idle time', in_ms(idle_ns)), '')
    || if(
        reserved_bytes > 0 AND memory_bytes > 0,
        format(
            '. The allocator reserves at most {:.1f} of {:.1f} GB', reserved_bytes / 1e9,
            memory_bytes / 1e9
        ) || coalesce(
            format(', and {:.1f} GB more without recomputation', needed_bytes / 1e9), ''
        ), ''
    ) AS what,
    'recomputation of activations' AS place,
    if(
        share = 1, 'recompute off',
        format('phase=recompute x{0:.2f}; host phase=recompute x{0:.2f}', 1 - share)
    ) AS change,
    work_ns + idle_ns AS cost_ns,
    'Disable gradient checkpointing'
    || if(
        share = 1, ', or use it for fewer layers, if memory allows',
        format(' for {:.0f} % of the layers, which fit into memory', 100 * share)
    )
    || ' (model.gradient_checkpointing_disable(); collect --opt without R)'
    || if(
        memory_bytes > 0 AND reserved_bytes IS NULL,
        '. Record with profile_memory=True to see how much memory is free.', ''
    ) AS remedy,
    'tracekit query phases TRACE' AS evidence
FROM room
WHERE work_ns > 0 AND share > 0
