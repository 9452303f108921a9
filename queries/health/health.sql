-- How far can the figures of this trace be trusted, and what could not be seen?
-- One row per metric. A metric that the trace cannot support has no value, and the meaning says why.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: accelerator, device_events, attributed_events, launches, recording, idle_gap, module, compiled_regions, compiled_events
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
    SELECT
        trace_id,
        correlation,
        max(ts_ns + dur_ns) AS end_ns
    FROM launches
    GROUP BY trace_id, correlation
),

work AS (
    SELECT
        e.*,
        l.correlation IS NOT NULL AS is_linked,
        l.end_ns > e.ts_ns AS is_before_launch_end,
        e.ts_ns < max(e.end_ns) OVER (
            PARTITION BY e.trace_id, e.device, e.stream ORDER BY e.ts_ns, e.event_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS is_stream_overlap
    FROM device_events AS e
    LEFT JOIN launch_end AS l ON e.trace_id = l.trace_id AND e.correlation = l.correlation
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
    SELECT
        d.trace_id,
        sum(d.dur_ns)::BIGINT AS compiled_ns
    FROM device_events AS d
    INNER JOIN compiled_events AS c
        ON d.trace_id = c.trace_id AND d.event_id = c.event_id AND d.piece = c.piece
    GROUP BY d.trace_id
),

rank_fact AS (
    SELECT
        trace_id,
        count(*) OVER (PARTITION BY rank) AS same_rank_count,
        count(DISTINCT rank) OVER () AS rank_count,
        max(world_size) OVER () AS job_size
    FROM trace
),

fact AS (
    SELECT
        t.*,
        a.accelerator,
        a.is_recorded,
        a.reason AS unrecorded_reason,
        a.unknown AS unknown_devices,
        t.trace_id IN (SELECT trace_id FROM launch_end) AS has_launches,
        d.* EXCLUDE (trace_id, event_count),
        coalesce(d.event_count, 0) AS device_event_count,
        e.* EXCLUDE (trace_id),
        i.* EXCLUDE (trace_id),
        c.* EXCLUDE (trace_id),
        m.cut_path_count,
        g.* EXCLUDE (trace_id),
        if(g.region_count IS NULL, NULL, coalesce(x.compiled_ns, 0)) AS compiled_ns,
        r.* EXCLUDE (trace_id)
    FROM trace AS t
    INNER JOIN accelerator AS a ON t.trace_id = a.trace_id
    LEFT JOIN device_fact AS d ON t.trace_id = d.trace_id
    INNER JOIN recording AS e ON t.trace_id = e.trace_id
    LEFT JOIN idle_fact AS i ON t.trace_id = i.trace_id
    LEFT JOIN attributed_fact AS c ON t.trace_id = c.trace_id
    LEFT JOIN module_fact AS m ON t.trace_id = m.trace_id
    LEFT JOIN region_fact AS g ON t.trace_id = g.trace_id
    LEFT JOIN compiled_fact AS x ON t.trace_id = x.trace_id
    INNER JOIN rank_fact AS r ON t.trace_id = r.trace_id
),

metric AS (
    SELECT
        trace_id,
        rank,
        unnest([
            {
                position: 1, metric: 'rejected', value: rejected_count::DOUBLE, unit: 'count',
                severity: CASE WHEN rejected_count > 0 THEN 'warn' ELSE 'ok' END,
                meaning: 'pieces of the file that could not be read; see table rejected'
            },
            {
                position: 2, metric: 'repaired', value: repaired_count::DOUBLE, unit: 'count',
                severity: CASE WHEN repaired_count > 0 THEN 'note' ELSE 'ok' END,
                meaning: 'events read after mending their text; see table repaired'
            },
            {
                position: 3, metric: 'truncated', value: is_truncated::INTEGER::DOUBLE,
                unit: 'count',
                severity: CASE WHEN is_truncated THEN 'warn' ELSE 'ok' END,
                meaning: coalesce(truncation_reason, 'the file is whole')
            },
            {
                position: 4, metric: 'rank_unknown', value: (rank IS NULL)::INTEGER::DOUBLE,
                unit: 'count',
                severity: CASE WHEN rank IS NULL THEN 'note' ELSE 'ok' END,
                meaning: CASE
                    WHEN rank IS NULL THEN 'neither the file nor its name tells the rank'
                    ELSE 'rank from ' || rank_source
                END
            },
            {
                position: 5, metric: 'duplicate_ranks',
                value: CASE WHEN rank IS NOT NULL THEN same_rank_count - 1 END::DOUBLE,
                unit: 'count',
                severity: CASE
                    WHEN rank IS NOT NULL AND same_rank_count > 1 THEN 'warn' ELSE 'ok'
                END,
                meaning: 'other files that say they are the same rank; each is shown by itself'
            },
            {
                position: 6, metric: 'missing_ranks',
                value: CASE
                    WHEN job_size IS NOT NULL THEN greatest(job_size - rank_count, 0)
                END::DOUBLE,
                unit: 'count',
                severity: CASE WHEN job_size > rank_count THEN 'note' ELSE 'ok' END,
                meaning: CASE
                    WHEN job_size IS NULL THEN 'the trace does not tell the size of the job'
                    ELSE 'ranks of the job whose trace is not here, of ' || job_size
                END
            },
            {
                position: 7, metric: 'device_events',
                value: CASE WHEN is_recorded THEN device_event_count END::DOUBLE,
                unit: 'count',
                severity: CASE WHEN device_event_count = 0 THEN 'warn' ELSE 'ok' END,
                meaning: CASE
                    WHEN NOT is_recorded THEN unrecorded_reason
                    WHEN device_event_count = 0 THEN 'no work of a device is in the trace'
                    WHEN accelerator = 'cpu'
                        THEN 'no accelerator was recorded: the ops of the CPU are the device work'
                    ELSE 'kernels, copies and memsets'
                END
            },
            {
                position: 17, metric: 'unknown_devices',
                value: (unknown_devices IS NOT NULL)::INTEGER::DOUBLE, unit: 'count',
                severity: CASE WHEN unknown_devices IS NOT NULL THEN 'warn' ELSE 'ok' END,
                meaning: coalesce(
                    unknown_devices, 'no process looks like a device that is not known'
                )
            },
            {
                position: 8, metric: 'device_time_linked',
                value: CASE
                    WHEN accelerator <> 'cpu' AND has_launches
                        THEN 100.0 * coalesce(linked_ns, 0) / nullif(kernel_ns, 0)
                END,
                unit: 'pct',
                severity: CASE
                    WHEN kernel_ns > 0 AND accelerator <> 'cpu' AND NOT has_launches THEN 'warn'
                    WHEN
                        accelerator = 'cpu'
                        OR kernel_ns IS NULL
                        OR coalesce(linked_ns, 0) >= 0.99 * kernel_ns
                        THEN 'ok'
                    WHEN coalesce(linked_ns, 0) >= 0.9 * kernel_ns THEN 'note'
                    ELSE 'warn'
                END,
                meaning: CASE
                    WHEN accelerator = 'cpu' THEN 'ops of the CPU have no launch'
                    WHEN kernel_ns > 0 AND NOT has_launches
                        THEN
                            'the file holds no call that launches work: nothing tells which op, '
                            || 'module or phase the work of the device belongs to'
                    ELSE 'device time whose launch is in the trace'
                END
            },
            {
                position: 9, metric: 'unlinked_device_events',
                value: CASE WHEN accelerator <> 'cpu' THEN unlinked_count END::DOUBLE,
                unit: 'count',
                severity: CASE
                    WHEN accelerator <> 'cpu' AND unlinked_count > 0 THEN 'note' ELSE 'ok'
                END,
                meaning: 'device events without a launch in the trace (queued before it began, or '
                || 'their runtime call was not recorded); they count in every total'
            },
            {
                position: 10, metric: 'device_time_classified',
                value: 100.0 * coalesce(classified_ns, 0) / nullif(kernel_ns, 0), unit: 'pct',
                severity: CASE
                    WHEN coalesce(classified_ns, 0) >= 0.98 * coalesce(kernel_ns, 0) THEN 'ok'
                    ELSE 'note'
                END,
                meaning: 'device time of a class other than `other`; a rules file can add classes'
            },
            {
                position: 11, metric: 'zero_duration_device_events', value: zero_count::DOUBLE,
                unit: 'count',
                severity: CASE WHEN zero_count > 0 THEN 'note' ELSE 'ok' END,
                meaning: 'device events shorter than the clock could tell; counted, with 0 ns'
            },
            {
                position: 12, metric: 'same_stream_overlaps',
                value: CASE WHEN accelerator <> 'cpu' THEN stream_overlap_count END::DOUBLE,
                unit: 'count',
                severity: CASE
                    WHEN accelerator <> 'cpu' AND stream_overlap_count > 0 THEN 'note' ELSE 'ok'
                END,
                meaning: 'device events that start before an earlier one of their stream ends; '
                || 'overlapping time is given to one of them'
            },
            {
                position: 13, metric: 'started_before_launch_returned',
                value: CASE WHEN accelerator <> 'cpu' THEN before_launch_end_count END::DOUBLE,
                unit: 'count', severity: 'ok',
                meaning: 'device events that start while the call that launched them still runs'
            },
            {
                position: 14, metric: 'unfinished_ops',
                value: unfinished_count::DOUBLE, unit: 'count',
                severity: CASE WHEN unfinished_count > 0 THEN 'note' ELSE 'ok' END,
                meaning: 'events that still ran when the profiler stopped, and begins without an '
                || 'end; cut at its end'
            },
            {
                position: 16, metric: 'stray_ends', value: stray_end_count::DOUBLE, unit: 'count',
                severity: CASE WHEN stray_end_count > 0 THEN 'note' ELSE 'ok' END,
                meaning: 'ends of spans whose begin is not in the file; see table unpaired'
            },
            {
                position: 15, metric: 'profiler_overhead', value: overhead_ns::DOUBLE,
                unit: 'ns',
                severity: CASE WHEN overhead_ns > 0 THEN 'note' ELSE 'ok' END,
                meaning: 'time that the profiler says it spent itself, in '
                || overhead_count || ' events'
            },
            {
                position: 20, metric: 'device_time_in_op',
                value: 100.0 * coalesce(op_ns, 0) / nullif(launched_ns, 0), unit: 'pct',
                severity: CASE
                    WHEN coalesce(op_ns, 0) >= 0.9 * coalesce(launched_ns, 0) THEN 'ok' ELSE 'note'
                END,
                meaning: 'linked device time whose launch is inside of an op'
            },
            {
                position: 21, metric: 'device_time_in_module_or_row',
                value: 100.0 * coalesce(placed_ns, 0) / nullif(launched_ns, 0), unit: 'pct',
                severity: CASE
                    WHEN coalesce(placed_ns, 0) >= 0.97 * coalesce(launched_ns, 0) THEN 'ok'
                    ELSE 'note'
                END,
                meaning: CASE
                    WHEN has_modules
                        THEN
                            'linked device time on a module, a range or a named row; the rest is '
                            || '(unattributed)'
                    ELSE
                        'linked device time on a named row; the trace names no modules (record '
                        || 'with_stack, or with ranges)'
                END
            },
            {
                position: 22, metric: 'device_time_in_phase',
                value: 100.0 * coalesce(phase_ns, 0) / nullif(kernel_ns, 0), unit: 'pct',
                severity: CASE
                    WHEN coalesce(phase_ns, 0) >= 0.97 * coalesce(kernel_ns, 0) THEN 'ok'
                    ELSE 'note'
                END,
                meaning: 'device time in a phase other than `other`'
            },
            {
                position: 23, metric: 'inferred_device_time',
                value: 100.0 * coalesce(inferred_ns, 0) / nullif(kernel_ns, 0), unit: 'pct',
                severity: CASE
                    WHEN coalesce(inferred_ns, 0) > 0.25 * coalesce(kernel_ns, 0) THEN 'warn'
                    WHEN coalesce(inferred_ns, 0) > 0.01 * coalesce(kernel_ns, 0) THEN 'note'
                    ELSE 'ok'
                END,
                meaning: 'device time whose phase or place does not come from its launch, but from '
                || 'its neighbours, its name or what it repeats; a warning from 25 % on'
            },
            {
                position: 24, metric: 'launched_before_window',
                value: CASE WHEN accelerator <> 'cpu' THEN before_window_count END::DOUBLE,
                unit: 'count',
                severity: CASE WHEN before_window_count > 0 THEN 'note' ELSE 'ok' END,
                meaning: CASE
                    WHEN accelerator = 'cpu' THEN 'ops of the CPU have no launch'
                    ELSE
                        'device events queued before the profiler began, '
                        || round(coalesce(before_window_ns, 0) / 1e6, 3) || ' ms'
                END
            },
            {
                position: 25, metric: 'launch_missing',
                value: CASE
                    WHEN accelerator <> 'cpu' AND has_launches THEN missing_launch_count
                END::DOUBLE,
                unit: 'count',
                severity: CASE
                    WHEN has_launches AND missing_launch_count > 0 THEN 'warn' ELSE 'ok'
                END,
                meaning: CASE
                    WHEN accelerator = 'cpu' THEN 'ops of the CPU have no launch'
                    WHEN NOT has_launches
                        THEN 'the file holds no call that launches work: none is missing'
                    ELSE
                        'device events whose launch should be in the trace and is not, '
                        || round(coalesce(missing_launch_ns, 0) / 1e6, 3) || ' ms'
                END
            },
            {
                position: 26, metric: 'compiled_region_device_time',
                value: CASE
                    WHEN region_count IS NOT NULL
                        THEN 100.0 * compiled_ns / nullif(kernel_ns, 0)
                END,
                unit: 'pct',
                severity: CASE WHEN compiled_ns > 0 THEN 'note' ELSE 'ok' END,
                meaning: CASE
                    WHEN region_count IS NULL THEN 'no region of torch.compile is in the trace'
                    ELSE
                        'device time launched inside of compiled regions'
                        || coalesce(' (graphs ' || graphs || ')', '')
                        || '; modules inside have no ranges: their time is at the module that '
                        || 'calls the region; analysis compiled tells more'
                END
            },
            {
                position: 27, metric: 'cut_module_paths', value: cut_path_count::DOUBLE,
                unit: 'count',
                severity: CASE WHEN cut_path_count > 0 THEN 'note' ELSE 'ok' END,
                meaning: CASE
                    WHEN cut_path_count IS NULL THEN 'the trace names no modules'
                    ELSE
                        'modules whose paths, beyond 2,000 characters, show two ends only and how '
                        || 'much is left out'
                END
            },
            {
                position: 40, metric: 'idle_explained',
                value: 100.0 * (idle_ns - unknown_idle_ns) / nullif(idle_ns, 0), unit: 'pct',
                severity: CASE
                    WHEN coalesce(unknown_idle_ns, 0) <= 0.1 * coalesce(idle_ns, 0) THEN 'ok'
                    ELSE 'note'
                END,
                meaning: CASE
                    WHEN idle_ns IS NULL THEN 'no device was idle'
                    ELSE 'idle time with a cause other than unknown'
                END
            },
            {
                position: 41, metric: 'unexplained_late_starts',
                value: CASE WHEN kernel_ns IS NOT NULL THEN coalesce(late_start_count, 0) END
                ::DOUBLE,
                unit: 'count',
                severity: CASE
                    WHEN late_start_ns > 0.01 * (busy_ns + idle_ns) THEN 'warn'
                    WHEN late_start_count > 0 THEN 'note'
                    ELSE 'ok'
                END,
                meaning: CASE
                    WHEN late_start_count > 0
                        THEN
                            'gaps before work that was launched in time, longer than launches take '
                            || 'and without a reason in the file, '
                            || round(late_start_ns / 1e6, 1) || ' ms; events may be missing (a '
                            || 'warning from 1 % of the window on)'
                    ELSE 'gaps before work that was launched in time and started late'
                END
            }
        ]) AS fact
    FROM fact
)

SELECT
    rank,
    fact.metric,
    fact.value,
    fact.unit,
    fact.severity,
    fact.meaning
FROM metric
ORDER BY rank NULLS LAST, trace_id, fact.position
