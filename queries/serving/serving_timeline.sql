-- Device time of a serving engine by part of the forward pass.
-- The sections match the inference engine timeline of arXiv 2311.03687. Other work of a layer (all-reduce, residual
-- add) belongs to the attention or ffn section before it. Work outside modules is `other`. Idle time belongs to the
-- section of the device event that ends it.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR
--   phase         VARCHAR  prefill, mixed, decode, verify, or forward
--   section       VARCHAR  before transformer, attention, ffn, after transformer, or other
--   layer_count   BIGINT   number of layers summed in the row; 0 outside layers
--   kernel_count BIGINT, kernel_ns BIGINT, wall_ns BIGINT
--   phase_pct     DOUBLE   share of the busy time of the phase, 0 to 100
--   idle_ns       BIGINT   idle time before device events of the section, ns
--   span_pct      DOUBLE   share of the busy and idle time of the phase, 0 to 100
--   step_count    BIGINT   number of steps of the phase with device work; NULL without marked steps
--   step_span_ns  DOUBLE   busy and idle time per step, ns
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns
-- Invariant: phase_pct IS NULL OR (0 <= phase_pct AND phase_pct <= 100.0000001)
-- Invariant: 0 <= idle_ns AND (span_pct IS NULL OR (0 <= span_pct AND span_pct <= 100.0000001))

SELECT
    w.rank, w.device, s.phase, s.section,
    count(DISTINCT s.layer) AS layer_count,
    count(*) FILTER (s.piece = 0) AS kernel_count,
    sum(s.dur_ns)::BIGINT AS kernel_ns,
    sum(s.wall_ns)::BIGINT AS wall_ns,
    100.0 * sum(s.wall_ns)::BIGINT / nullif(
        sum(sum(s.wall_ns)) OVER (PARTITION BY w.trace_id, w.device, s.phase), 0
    )::BIGINT AS phase_pct,
    sum(s.idle_ns)::BIGINT AS idle_ns,
    100.0 * sum(s.wall_ns + s.idle_ns)::BIGINT / nullif(
        sum(sum(s.wall_ns + s.idle_ns)) OVER (PARTITION BY w.trace_id, w.device, s.phase), 0
    )::BIGINT AS span_pct,
    n.step_count,
    sum(s.wall_ns + s.idle_ns)::BIGINT / n.step_count AS step_span_ns
FROM serving_section_work AS s
INNER JOIN device_windows AS w ON s.trace_id = w.trace_id AND s.device = w.device
LEFT JOIN serving_phase_steps() AS n
    ON s.trace_id = n.trace_id AND s.device = n.device AND s.phase = n.phase
GROUP BY w.trace_id, w.rank, w.device, s.phase, s.section, n.step_count
ORDER BY
    w.rank NULLS LAST,
    w.trace_id, w.device,
    phase_order(s.phase),
    list_position(
        ['before transformer', 'attention', 'ffn', 'after transformer', 'other'], s.section
    )
