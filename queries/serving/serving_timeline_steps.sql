-- Mean time per step of each section of a serving engine's forward pass, over the devices.
-- The section `transformer` is the sum of attention and ffn. A device with the phase but not the section counts as 0.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   serving_timeline per step
-- Input:    serving_timeline
-- Columns:
--   phase         VARCHAR
--   section       VARCHAR  as in serving_timeline, or transformer for the sum of attention and ffn
--   step_span_ns  DOUBLE   busy and idle time per step, ns; NULL without marked steps
--   span_pct      DOUBLE   share of the phase, 0 to 100; NULL if the phase takes no time
--   device_count  BIGINT
-- Invariant: (step_span_ns IS NULL OR 0 <= step_span_ns) AND (span_pct IS NULL OR span_pct <= 100.0000001)

WITH shared AS (
    SELECT * RENAME (span_pct AS share_pct) FROM serving_timeline
),

named AS (
    SELECT
        phase, rowid AS place, step_span_ns, span_pct,
        unnest(if(section IN ('attention', 'ffn'), [section, 'transformer'], [section])) AS section
    FROM serving_timeline
),

summed AS (
    SELECT
        phase, section,
        min(place) AS place,
        fsum(step_span_ns ORDER BY place) AS step_span_ns,
        fsum(span_pct ORDER BY place) AS span_pct
    FROM named
    GROUP BY phase, section
)

SELECT
    s.phase, s.section,
    if(d.stepped_count > 0, coalesce(s.step_span_ns, 0) / d.stepped_count, NULL) AS step_span_ns,
    if(d.timed_count > 0, coalesce(s.span_pct, 0) / d.timed_count, NULL) AS span_pct,
    d.device_count
FROM summed AS s
INNER JOIN serving_phase_devices('shared') AS d USING (phase)
ORDER BY min(s.place) OVER (PARTITION BY s.phase), s.place, s.section = 'transformer' DESC
