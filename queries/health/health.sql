-- How far can the figures of this trace be trusted, and what could not be seen?
-- One row per metric. A metric that the trace cannot support has no value, and the meaning says why.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: accelerator, device_events, attributed_events, runtime_calls, recording, idle_gap, module, compiled_regions,
--           compiled_events, interval_neighbours, health_metrics, health_of_ranks
-- Columns:
--   rank      INTEGER  global rank; NULL where neither the file nor its name tells it
--   metric    VARCHAR  what was looked at
--   value     DOUBLE   how much; NULL where the trace cannot tell
--   unit      VARCHAR  count, ns or pct
--   severity  VARCHAR  ok, note or warn
--   meaning   VARCHAR  what it says about the figures
-- Invariant: severity IN ('ok', 'note', 'warn')
-- Invariant: unit <> 'pct' OR value IS NULL OR (0 <= value AND value <= 100)
-- Note: in a run folder, the rows of analysis run_health come behind these, without a rank

WITH launch_end AS (
    SELECT trace_id, correlation, max(ts_ns + dur_ns) AS end_ns
    FROM runtime_calls
    GROUP BY trace_id, correlation
),

device_correlation AS (
    SELECT DISTINCT trace_id, correlation
    FROM device_events
),

-- Calls that put work on a device, and those that begin (1) or end (-1) the capture of a graph.
launch_call AS MATERIALIZED (
    SELECT
        e.trace_id, e.pid, e.event_id, e.ts_ns,
        contains(e.name, 'StreamBeginCapture')::INTEGER
        - contains(e.name, 'StreamEndCapture')::INTEGER AS capture_change,
        contains(e.name, 'GraphLaunch') AS is_replay,
        d.correlation IS NOT NULL AS has_work
    FROM event AS e
    LEFT JOIN device_correlation AS d USING (trace_id, correlation)
    WHERE
        (is_launch_of_work(e.category, e.name) AND e.correlation IS NOT NULL)
        OR (is_launch_call(e.category) AND regexp_matches(e.name, 'Stream(Begin|End)Capture'))
),

launching AS (
    SELECT
        trace_id,
        count(*) AS launch_count,
        count_if(is_replay) AS replay_count,
        max(ts_ns) FILTER (is_replay AND has_work) AS last_replay_ts_ns
    FROM launch_call
    WHERE capture_change = 0
    GROUP BY trace_id
),

workless AS (
    SELECT
        trace_id, ts_ns, capture_change,
        sum(capture_change) OVER (
            PARTITION BY trace_id, pid ORDER BY ts_ns, event_id
        ) > 0 AS is_captured
    FROM launch_call
    WHERE NOT has_work
),

launch_fact AS (
    SELECT
        l.trace_id,
        any_value(l.launch_count) AS launch_count,
        any_value(l.replay_count) AS replay_count,
        -- What was captured runs in a later replay of the same file: it is not missing.
        count(w.trace_id) FILTER (
            NOT w.is_captured OR coalesce(l.last_replay_ts_ns <= w.ts_ns, TRUE)
        ) AS workless_launch_count,
        count(w.trace_id) FILTER (w.is_captured) AS captured_launch_count
    FROM launching AS l
    LEFT JOIN workless AS w ON l.trace_id = w.trace_id AND w.capture_change = 0
    GROUP BY l.trace_id
),

work AS (
    SELECT
        e.*,
        l.correlation IS NOT NULL AS is_linked,
        l.end_ns > e.ts_ns AS is_before_launch_end,
        gap_before_ns(
            (e.trace_id, e.device, e.stream), e.ts_ns, e.end_ns, (e.end_ns, e.event_id)
        ) < 0 AS is_stream_overlap
    FROM device_events AS e
    LEFT JOIN launch_end AS l USING (trace_id, correlation)
),

device_fact AS (
    SELECT
        trace_id,
        count(*) AS event_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS busy_ns,
        sum(dur_ns) FILTER (is_linked)::BIGINT AS linked_ns,
        count(*) FILTER (NOT is_linked) AS unlinked_count,
        coalesce(sum(dur_ns) FILTER (NOT is_linked), 0)::BIGINT AS unlinked_ns,
        sum(dur_ns) FILTER (class <> 'other')::BIGINT AS classified_ns,
        count(*) FILTER (dur_ns = 0) AS zero_count,
        count(*) FILTER (is_stream_overlap) AS stream_overlap_count,
        count(*) FILTER (is_before_launch_end) AS before_launch_end_count
    FROM work
    GROUP BY trace_id
),

idle_fact AS (
    SELECT
        g.trace_id,
        sum(g.idle_ns)::BIGINT AS idle_ns,
        coalesce(sum(g.idle_ns) FILTER (g.cause = 'unknown'), 0)::BIGINT AS unknown_idle_ns,
        count(*) FILTER (g.reason = 'unusual delay') AS late_start_count,
        coalesce(sum(g.idle_ns) FILTER (g.reason = 'unusual delay'), 0)::BIGINT AS late_start_ns
    FROM idle_gap AS g
    GROUP BY g.trace_id
),

attributed_fact AS (
    SELECT
        d.trace_id,
        sum(d.dur_ns) FILTER (d.launch_id IS NOT NULL)::BIGINT AS launched_ns,
        sum(d.dur_ns) FILTER (d.launch_id IS NOT NULL AND d.op_id IS NOT NULL)::BIGINT AS op_ns,
        sum(d.dur_ns) FILTER (
            d.launch_id IS NOT NULL AND d.row_name IS DISTINCT FROM '(unattributed)'
        )::BIGINT AS placed_ns,
        coalesce(bool_or(d.module_id IS NOT NULL), FALSE) AS has_modules,
        sum(d.dur_ns) FILTER (d.phase <> 'other')::BIGINT AS phase_ns,
        sum(d.dur_ns) FILTER (d.is_inferred)::BIGINT AS inferred_ns,
        count(*) FILTER (d.link = 'before_window') AS before_window_count,
        coalesce(sum(d.dur_ns) FILTER (d.link = 'before_window'), 0)::BIGINT AS before_window_ns,
        count(*) FILTER (d.link = 'missing_launch') AS missing_launch_count,
        coalesce(sum(d.dur_ns) FILTER (d.link = 'missing_launch'), 0)::BIGINT AS missing_launch_ns
    FROM attributed_events AS d
    GROUP BY d.trace_id
),

module_fact AS (
    SELECT
        trace_id,
        count_if(regexp_matches(path, '…\d+ (modules|characters), [0-9a-f]{8}…'))::BIGINT
            AS cut_path_count
    FROM module
    GROUP BY trace_id
),

region_fact AS (
    SELECT
        trace_id,
        count(*) AS region_count,
        nullif(array_to_string(list_sort(list(DISTINCT graph))[:5], ', '), '')
        || CASE WHEN count(DISTINCT graph) > 5 THEN ', …' ELSE '' END AS graphs
    FROM compiled_regions
    GROUP BY trace_id
),

compiled_fact AS (
    SELECT d.trace_id, sum(d.dur_ns)::BIGINT AS compiled_ns
    FROM device_events AS d
    INNER JOIN compiled_events AS c USING (trace_id, event_id, piece)
    GROUP BY d.trace_id
),

fact AS MATERIALIZED (
    SELECT
        t.*,
        a.accelerator, a.is_recorded, a.reason AS unrecorded_reason, a.unknown AS unknown_devices,
        t.trace_id IN (SELECT trace_id FROM launch_end) AS has_launches,
        d.* EXCLUDE (trace_id, event_count),
        l.* EXCLUDE (trace_id),
        coalesce(d.event_count, 0) AS device_event_count,
        e.* EXCLUDE (trace_id),
        i.* EXCLUDE (trace_id),
        c.* EXCLUDE (trace_id),
        m.cut_path_count,
        g.* EXCLUDE (trace_id),
        if(g.region_count IS NULL, NULL, coalesce(x.compiled_ns, 0)) AS compiled_ns,
        r.* EXCLUDE (trace_id)
    FROM trace AS t
    INNER JOIN accelerator AS a USING (trace_id)
    LEFT JOIN device_fact AS d USING (trace_id)
    LEFT JOIN launch_fact AS l USING (trace_id)
    INNER JOIN recording AS e USING (trace_id)
    LEFT JOIN idle_fact AS i USING (trace_id)
    LEFT JOIN attributed_fact AS c USING (trace_id)
    LEFT JOIN module_fact AS m USING (trace_id)
    LEFT JOIN region_fact AS g USING (trace_id)
    LEFT JOIN compiled_fact AS x USING (trace_id)
    INNER JOIN rank_facts() AS r USING (trace_id)
),

metric AS (
    SELECT * FROM health_metrics('fact')
    UNION ALL
    SELECT * FROM health_of_ranks('fact')
)

SELECT rank, fact.metric, fact.value, fact.unit, fact.severity, fact.meaning
FROM metric
ORDER BY rank NULLS LAST, trace_id, fact.position
