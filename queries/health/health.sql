-- How far can the figures of this trace be trusted, and what could not be seen?
-- One row per metric. A metric that the trace cannot support has no value, and the meaning says why.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: accelerator, device_events, attribution, runtime_calls, recording, idle_gap, module, compiled_regions,
--           compiled_events, event_category, health_metrics, health_of_ranks
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

-- Calls that put work on a device, and those that begin (1) or end (-1) the capture of a graph.
launch_call AS (
    SELECT
        trace_id, pid, event_id, ts_ns,
        contains(name, 'StreamBeginCapture')::INTEGER
        - contains(name, 'StreamEndCapture')::INTEGER AS capture_change,
        contains(name, 'GraphLaunch') AS is_replay,
        coalesce(
            (trace_id, correlation) IN (
                SELECT (trace_id, correlation) FROM device_events WHERE correlation IS NOT NULL
            ),
            FALSE
        ) AS has_work
    FROM event
    WHERE
        (is_launch_of_work(category, name) AND correlation IS NOT NULL)
        OR (is_launch_call(category) AND regexp_matches(name, 'Stream(Begin|End)Capture'))
),

-- What was captured runs in a later replay of the same file: it is not missing.
captured_call AS (
    SELECT
        trace_id, ts_ns, capture_change, is_replay, has_work,
        sum(capture_change) FILTER (NOT has_work) OVER (
            PARTITION BY trace_id, pid ORDER BY ts_ns, event_id
        ) > 0 AS is_captured,
        max(ts_ns) FILTER (is_replay AND has_work AND capture_change = 0) OVER (
            PARTITION BY trace_id
        ) AS last_replay_ts_ns
    FROM launch_call
),

launch_fact AS (
    SELECT
        trace_id,
        count(*) AS launch_count,
        count_if(is_replay) AS replay_count,
        count(*) FILTER (
            NOT has_work AND (NOT is_captured OR coalesce(last_replay_ts_ns <= ts_ns, TRUE))
        ) AS workless_launch_count,
        count(*) FILTER (NOT has_work AND is_captured) AS captured_launch_count
    FROM captured_call
    WHERE capture_change = 0
    GROUP BY trace_id
),

work AS (
    SELECT
        e.trace_id, e.class, e.dur_ns, e.wall_ns, a.launch_id, a.op_id, a.module_id,
        a.row_name, a.phase, a.is_inferred, a.link,
        c.event_id IS NOT NULL AS is_compiled,
        l.end_ns IS NOT NULL AS is_linked,
        l.end_ns > e.ts_ns AS is_before_launch_end
    FROM device_events AS e
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    LEFT JOIN launch_end AS l USING (trace_id, correlation)
    LEFT JOIN compiled_events AS c USING (trace_id, event_id, piece)
),

device_fact AS (
    SELECT
        trace_id,
        count(*) AS device_event_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS busy_ns,
        sum(dur_ns) FILTER (is_linked)::BIGINT AS linked_ns,
        count(*) FILTER (NOT is_linked) AS unlinked_count,
        coalesce(sum(dur_ns) FILTER (NOT is_linked), 0)::BIGINT AS unlinked_ns,
        sum(dur_ns) FILTER (class <> 'other')::BIGINT AS classified_ns,
        count(*) FILTER (dur_ns = 0) AS zero_count,
        count(*) FILTER (is_before_launch_end) AS before_launch_end_count,
        sum(dur_ns) FILTER (launch_id IS NOT NULL)::BIGINT AS launched_ns,
        sum(dur_ns) FILTER (launch_id IS NOT NULL AND op_id IS NOT NULL)::BIGINT AS op_ns,
        sum(dur_ns) FILTER (
            launch_id IS NOT NULL AND row_name IS DISTINCT FROM '(unattributed)'
        )::BIGINT AS placed_ns,
        bool_or(module_id IS NOT NULL) AS has_modules,
        sum(dur_ns) FILTER (phase <> 'other')::BIGINT AS phase_ns,
        sum(dur_ns) FILTER (is_inferred)::BIGINT AS inferred_ns,
        count(*) FILTER (link = 'before_window') AS before_window_count,
        coalesce(sum(dur_ns) FILTER (link = 'before_window'), 0)::BIGINT AS before_window_ns,
        count(*) FILTER (link = 'missing_launch') AS missing_launch_count,
        coalesce(sum(dur_ns) FILTER (link = 'missing_launch'), 0)::BIGINT AS missing_launch_ns,
        coalesce(sum(dur_ns) FILTER (is_compiled), 0)::BIGINT AS compiled_ns
    FROM work
    GROUP BY trace_id
),

stream_end AS (
    SELECT
        trace_id, ts_ns,
        max(end_ns) OVER (
            PARTITION BY trace_id, device, stream ORDER BY ts_ns, end_ns, event_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS end_ns
    FROM device_events
    WHERE device <> 'cpu'
),

stream_fact AS (
    SELECT trace_id, count(*) FILTER (end_ns > ts_ns) AS stream_overlap_count
    FROM stream_end
    GROUP BY trace_id
),

idle_fact AS (
    SELECT
        trace_id,
        sum(idle_ns)::BIGINT AS idle_ns,
        coalesce(sum(idle_ns) FILTER (cause = 'unknown'), 0)::BIGINT AS unknown_idle_ns,
        count(*) FILTER (reason = 'unusual delay') AS late_start_count,
        coalesce(sum(idle_ns) FILTER (reason = 'unusual delay'), 0)::BIGINT AS late_start_ns
    FROM idle_gap
    GROUP BY trace_id
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

fact AS MATERIALIZED (
    SELECT
        t.*,
        a.accelerator, a.is_recorded, a.reason AS unrecorded_reason, a.unknown AS unknown_devices,
        t.trace_id IN (SELECT trace_id FROM launch_end) AS has_launches,
        d.* EXCLUDE (trace_id, device_event_count, compiled_ns),
        coalesce(d.device_event_count, 0) AS device_event_count,
        s.stream_overlap_count,
        l.* EXCLUDE (trace_id),
        e.* EXCLUDE (trace_id),
        i.* EXCLUDE (trace_id),
        m.cut_path_count,
        g.* EXCLUDE (trace_id),
        if(g.region_count IS NULL, NULL, coalesce(d.compiled_ns, 0)) AS compiled_ns,
        r.* EXCLUDE (trace_id)
    FROM trace AS t
    INNER JOIN accelerator AS a USING (trace_id)
    LEFT JOIN device_fact AS d USING (trace_id)
    LEFT JOIN stream_fact AS s USING (trace_id)
    LEFT JOIN launch_fact AS l USING (trace_id)
    INNER JOIN recording AS e USING (trace_id)
    LEFT JOIN idle_fact AS i USING (trace_id)
    LEFT JOIN module_fact AS m USING (trace_id)
    LEFT JOIN region_fact AS g USING (trace_id)
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
