-- Energy of each device by window, phase, step, and load.
-- Energy is the integral of power between samples (trapezoids), or the difference of an energy counter, including idle
-- time. Energy counters take precedence over instant power, and instant power over average power. The energy covers the
-- entire device, including other programs; for cpu, the CPU packages without memory. A load lasts from the start of its
-- first request to the end of its last one. The energy of concurrent requests cannot be separated.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   max_gap_ns       BIGINT = 1500000000  longest time between two samples that counts as covered, ns
--   min_covered_pct  DOUBLE = 90          minimum covered_pct for which a row has energy, 0 to 100
-- Columns:
--   rank INTEGER, device VARCHAR
--   scope             VARCHAR  window, phase, step, or load
--   name              VARCHAR  phase or step number; measured or profiled for loads
--   dur_ns            BIGINT   duration of the window, phase, step, or load, ns
--   energy_j          DOUBLE   energy of the covered time, J
--   mean_power_w      DOUBLE   energy_j / covered time, W
--   covered_pct       DOUBLE   share of dur_ns covered by samples, 0 to 100
--   sample_count      BIGINT   number of samples
--   token_count       BIGINT   output tokens of a load, or tokens of a training step; NULL if unknown
--   request_count     BIGINT   number of successful requests of a load; else NULL
--   token_energy_j    DOUBLE   energy per token, J: mean power × duration / tokens
--   request_energy_j  DOUBLE   energy per request, J: mean power × duration / requests
--   counter           VARCHAR  counter used
--   source            VARCHAR  trace, or the name of the sample file
--   clock             VARCHAR  UTC, trace, or local (a file without a time zone; uses the zone of the machine that reads it)
--   reason            VARCHAR  why there is no energy; else NULL
-- Keep:      device, scope, name, energy_j, mean_power_w, covered_pct, dur_ns, token_energy_j, request_energy_j, reason
-- Invariant: (energy_j IS NULL) = (reason IS NOT NULL)
-- Invariant: 0 <= covered_pct AND covered_pct <= 100.0000001 AND dur_ns > 0 AND sample_count >= 0
-- Empty: counter_samples: no counter was sampled for a device of the trace; add a sample file, such as one of nvidia-smi
-- Empty: no power or energy was sampled for a device of the trace

WITH counters (name, unit, preference) AS (
    VALUES
    ('totec', 'J', 1), ('total_energy_consumption', 'J', 1), ('energy', 'J', 1),
    ('power.draw.instant', 'W', 2), ('current_socket_power', 'W', 2),
    ('power.draw', 'W', 3), ('power.draw.average', 'W', 3), ('pwr', 'W', 3), ('power', 'W', 3),
    ('powr', 'W', 3), ('socket_power', 'W', 3), ('power_usage', 'W', 3),
    ('average_socket_power', 'W', 3),
    ('average graphics package power', 'W', 3),
    ('current socket graphics package power', 'W', 3)
),

samples AS (
    SELECT
        s.trace_id, s.device, s.name, s.source, s.clock, s.at_ns, s.value, c.unit
    FROM counter_samples AS s
    INNER JOIN counters AS c
        ON s.name = c.name AND (s.unit = c.unit OR (s.unit = '' AND c.unit = 'W'))
    WHERE s.value IS NOT NULL AND s.device IS NOT NULL
    QUALIFY
        dense_rank() OVER (
            PARTITION BY s.trace_id, s.device ORDER BY c.preference, s.name, s.source
        ) = 1
),

counter_source AS (
    SELECT
        trace_id, device,
        any_value(name) AS name,
        any_value(source) AS source,
        any_value(clock) AS clock
    FROM samples
    GROUP BY trace_id, device
),

spans AS (
    SELECT
        trace_id, device, unit, at_ns, value,
        lead(value) OVER times AS next_value,
        next_start_ns((trace_id, device), at_ns, value) - at_ns AS gap_ns,
        coalesce(
            gap_ns > 0 AND gap_ns <= $max_gap_ns AND (unit = 'W' OR next_value >= value), FALSE
        ) AS is_covered
    FROM samples
    WINDOW times AS (PARTITION BY trace_id, device ORDER BY at_ns, value)
),

curves AS (
    SELECT
        *,
        row_number() OVER times AS number,
        sum(
            CASE
                WHEN NOT is_covered THEN 0
                WHEN unit = 'J' THEN next_value - value
                ELSE (value + next_value) / 2 * gap_ns / 1e9
            END
        ) OVER times AS until_j,
        sum(if(is_covered, gap_ns, 0)) OVER times AS until_ns
    FROM spans
    WINDOW times AS (PARTITION BY trace_id, device ORDER BY at_ns, value ROWS UNBOUNDED PRECEDING)
),

work AS MATERIALIZED (
    SELECT *
    FROM attributed_events
),

walls AS MATERIALIZED (
    SELECT *
    FROM wall_intervals('work')
),

loads AS (
    SELECT
        t.trace_id, r.is_profiled,
        any_value(n.load_start_unix_ns - t.base_time_ns) + min(r.sent_ns) AS start_ns,
        any_value(n.load_start_unix_ns - t.base_time_ns) + max(r.end_ns) AS end_ns,
        count(*) FILTER (r.outcome = 'ok') AS request_count,
        if(bool_and(r.output_token_count IS NOT NULL), sum(r.output_token_count)::BIGINT, NULL)
            AS load_token_count
    FROM request AS r
    INNER JOIN run AS n USING (run_id)
    INNER JOIN trace AS t USING (run_id)
    WHERE NOT r.is_warmup AND n.load_start_unix_ns IS NOT NULL
    GROUP BY t.trace_id, r.is_profiled
),

step_tokens AS (
    SELECT
        t.trace_id,
        n.batch_size::BIGINT * n.sequence_length * coalesce(n.gradient_accumulation, 1)
            AS step_token_count
    FROM trace AS t
    INNER JOIN run AS n USING (run_id)
    WHERE n.stage IN ('pretrain', 'finetune') AND n.tensor_size = 1 AND n.pipeline_size = 1
),

sections AS (
    SELECT trace_id, device, 1 AS place, 'window' AS scope, NULL AS name, start_ns, end_ns
    FROM device_windows
    UNION ALL
    SELECT trace_id, device, 2 AS place, 'phase' AS scope, phase AS name, start_ns, end_ns
    FROM phase_intervals('walls', 'work')
    UNION ALL
    SELECT
        trace_id, device, 3 AS place, 'step' AS scope, step::VARCHAR AS name, start_ns,
        start_ns + span_ns AS end_ns
    FROM device_steps
    UNION ALL
    SELECT
        trace_id, device, 4 AS place, 'load' AS scope,
        if(is_profiled, 'profiled', 'measured') AS name, l.start_ns, l.end_ns
    FROM loads AS l
    INNER JOIN device_windows USING (trace_id)
),

ends AS (
    SELECT
        s.trace_id, s.device, s.place, s.scope, s.name, e.sign, e.at_ns
    FROM (
        SELECT
            *,
            unnest([{sign: 1, at_ns: end_ns}, {sign: -1, at_ns: start_ns}]) AS e
        FROM sections
        WHERE end_ns > start_ns
    ) AS s
),

-- Cumulative values at each boundary. If a boundary is between two samples, interpolate.
boundary_value AS (
    SELECT
        e.*,
        coalesce(c.number, 0) AS number,
        if(c.is_covered, least(e.at_ns - c.at_ns, c.gap_ns), 0) AS part_ns,
        coalesce(c.until_ns - if(c.is_covered, c.gap_ns, 0), 0) + part_ns AS covered_ns,
        coalesce(
            c.until_j
            - CASE
                WHEN NOT c.is_covered THEN 0
                WHEN c.unit = 'J'
                    THEN (c.next_value - c.value) * (1 - part_ns / c.gap_ns)
                ELSE
                    (c.gap_ns - part_ns) / 1e9
                    * (
                        c.next_value
                        + (c.next_value - c.value) * (part_ns - c.gap_ns) / (2 * c.gap_ns)
                    )
            END,
            0
        ) AS joules
    FROM ends AS e
    ASOF LEFT JOIN curves AS c
        ON e.trace_id = c.trace_id AND e.device = c.device AND e.at_ns >= c.at_ns
),

summed AS (
    SELECT
        trace_id, device, place, scope, name,
        sum(sign * at_ns)::BIGINT AS dur_ns,
        sum(sign * covered_ns)::BIGINT AS covered_ns,
        sum(sign * number)::BIGINT AS sample_count,
        -- Use a fixed order because the sum of doubles depends on it.
        sum(sign * joules ORDER BY at_ns, sign) AS joules
    FROM boundary_value
    GROUP BY trace_id, device, place, scope, name
),

judged AS (
    SELECT
        s.*,
        100.0 * covered_ns / dur_ns AS covered_pct,
        CASE
            WHEN covered_pct < $min_covered_pct
                THEN 'samples cover too little of that time'
            WHEN sample_count < 2 THEN 'fewer than two samples in that time'
        END AS reason,
        if(reason IS NULL, joules, NULL) AS energy_j,
        energy_j * dur_ns / covered_ns AS full_energy_j
    FROM summed AS s
)

SELECT
    w.rank, j.device, j.scope, j.name, j.dur_ns,
    j.energy_j,
    1e9 * j.energy_j / j.covered_ns AS mean_power_w,
    j.covered_pct, j.sample_count,
    if(j.scope = 'step', t.step_token_count, l.load_token_count) AS token_count,
    l.request_count,
    j.full_energy_j / nullif(token_count, 0) AS token_energy_j,
    j.full_energy_j / nullif(l.request_count, 0) AS request_energy_j,
    c.name AS counter, c.source, c.clock, j.reason
FROM judged AS j
INNER JOIN device_windows AS w USING (trace_id, device)
INNER JOIN counter_source AS c USING (trace_id, device)
LEFT JOIN loads AS l
    ON
        j.trace_id = l.trace_id AND j.scope = 'load'
        AND l.is_profiled = (j.name = 'profiled')
LEFT JOIN step_tokens AS t ON j.trace_id = t.trace_id
ORDER BY
    w.rank NULLS LAST, j.trace_id, j.device, j.place, phase_order(j.name),
    try_cast(j.name AS BIGINT), j.name
