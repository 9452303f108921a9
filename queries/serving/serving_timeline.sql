-- Where in a pass through the model was the time: before the layers, attention, FFN, behind the layers?
-- The paper's timeline of an inference engine. What is in a layer but in neither of its sections, such as the
-- all-reduce and the residual sum behind each, belongs to the section before it. What no module encloses is other.
-- Idle time goes to the section of the device event that ends it, so that busy and idle time of the sections of a phase
-- are those of the phase.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu
--   phase         VARCHAR  prefill, mixed, decode, verify or forward
--   section       VARCHAR  before transformer, attention, ffn, after transformer or other
--   layer_count   BIGINT   layers whose time is in the row; 0 outside of layers
--   kernel_count  BIGINT   device events
--   kernel_ns     BIGINT   sum of their durations, ns
--   wall_ns       BIGINT   busy time that is theirs, ns
--   phase_pct     DOUBLE   wall_ns of the busy time of the phase, 0 to 100
--   idle_ns       BIGINT   idle time before them, ns
--   span_pct      DOUBLE   wall_ns and idle_ns of those of the phase, 0 to 100
--   step_count    BIGINT   steps of serving of this phase that put work on the device; NULL where no range marks any
--   step_span_ns  DOUBLE   wall_ns and idle_ns per step, ns
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
