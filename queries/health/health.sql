-- Data-quality checks of a trace, one row per metric.
-- If a trace lacks the data for a metric, its value is NULL, and `meaning` gives the reason.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank      INTEGER  global rank; NULL if unknown
--   metric    VARCHAR  name of the check
--   value     DOUBLE   value; NULL if unknown
--   unit      VARCHAR  count, ns, or pct
--   severity  VARCHAR  ok, note, or warn
--   meaning   VARCHAR  effect of the value on the results
-- View:
--   browse  key=7 menu=health title="Health: data-quality checks" first=severity:warn,note,ok
--           columns=severity,metric,value,unit,meaning,rank
-- Invariant: severity IN ('ok', 'note', 'warn')
-- Invariant: unit <> 'pct' OR value IS NULL OR (0 <= value AND value <= 100)
-- Note: in a run folder, the rows of run_health follow, without a rank

WITH launch_end AS (
    SELECT
        trace_id, correlation,
        min(ts_ns) AS begin_ns,
        max(ts_ns + dur_ns) AS end_ns,
        max(ts_ns) > min(ts_ns + dur_ns) AS is_shared,
        bool_or(contains(name, 'GraphLaunch')) AS is_replay,
        bool_or(regexp_matches(name, '^cu(da)?LaunchKernelEx(C|_|$)')) AS is_dependent
    FROM runtime_calls
    GROUP BY trace_id, correlation
),

launch_fact AS (
    SELECT
        trace_id,
        count(*) AS launch_count,
        count_if(is_replay) AS replay_count,
        count_if(is_missing) AS workless_launch_count,
        count_if(is_missing AND is_replay) AS missing_replay_count,
        count_if(is_captured) AS captured_launch_count
    FROM launch_call
    GROUP BY trace_id
),

-- Steps without work, and steps in which at least a quarter of the kernel launches have no recorded
-- work.
step_fact AS (
    SELECT
        trace_id,
        count(*) AS lacking_step_count,
        array_to_string(list(step ORDER BY step)[:5], ', ')
        || CASE WHEN count(*) > 5 THEN ', …' ELSE '' END AS lacking_steps
    FROM unrecorded_step
    WHERE NOT has_work OR missing_count >= 0.25 * launch_count
    GROUP BY trace_id
),

-- Steps whose number occurred before. Numbers in optimizer names are not step numbers.
repeated_fact AS (
    SELECT trace_id, count(*) AS repeated_count
    FROM step_ranges
    WHERE
        NOT starts_with(name, 'Optimizer.step#')
        AND try_cast(regexp_extract(name, '\d{1,18}') AS BIGINT) <> step
    GROUP BY trace_id
),

work AS (
    SELECT
        e.trace_id, e.piece, e.class, e.dur_ns, e.wall_ns, a.launch_id, a.op_id, a.module_id,
        a.row_name, a.phase, a.is_inferred, a.link, a.captured_id, l.is_replay,
        c.event_id IS NOT NULL AS is_compiled,
        l.end_ns IS NOT NULL AS is_linked,
        l.end_ns > e.ts_ns AS is_before_launch_end,
        l.begin_ns - e.ts_ns AS before_launch_ns,
        l.is_shared
    FROM device_events AS e
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    LEFT JOIN launch_end AS l USING (trace_id, correlation)
    LEFT JOIN compiled_events AS c USING (trace_id, event_id, piece)
),

device_fact AS (
    SELECT
        trace_id,
        count(*) FILTER (piece = 0) AS device_event_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(wall_ns)::BIGINT AS busy_ns,
        sum(dur_ns) FILTER (is_linked)::BIGINT AS linked_ns,
        count(*) FILTER (NOT is_linked) AS unlinked_count,
        coalesce(sum(dur_ns) FILTER (NOT is_linked), 0)::BIGINT AS unlinked_ns,
        sum(dur_ns) FILTER (class <> 'other')::BIGINT AS classified_ns,
        count(*) FILTER (dur_ns = 0) AS zero_count,
        count(*) FILTER (is_replay) AS replayed_count,
        count(captured_id) AS matched_count,
        count(*) FILTER (is_before_launch_end) AS before_launch_end_count,
        count(*) FILTER (before_launch_ns > 1000) AS before_launch_count,
        max(before_launch_ns) AS before_launch_ns,
        2 * count_if(is_shared AND before_launch_ns > 1000)
        > count_if(before_launch_ns > 1000) AS has_reused_ids,
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
        trace_id, correlation, ts_ns,
        latest_end_before_ns((trace_id, device, stream), ts_ns, end_ns, (end_ns, event_id))
            AS end_ns
    FROM device_events
    WHERE device <> 'cpu'
),

stream_fact AS (
    SELECT
        s.trace_id,
        count(*) FILTER (l.is_dependent IS NOT TRUE) AS stream_overlap_count,
        count(*) FILTER (l.is_dependent) AS dependent_overlap_count
    FROM stream_end AS s
    LEFT JOIN launch_end AS l USING (trace_id, correlation)
    WHERE s.end_ns > s.ts_ns
    GROUP BY s.trace_id
),

-- Records without a usable time, including unreadable ones. Unreturned calls have no reason.
doubtful AS (
    SELECT trace_id, if(problem = 'unreturned', NULL, reason) AS reason
    FROM implausible
    UNION ALL
    SELECT
        trace_id,
        CASE
            WHEN starts_with(reason, 'ts is 0')
                THEN 'that the profiler recorded without a time (start is 0)'
            ELSE 'with impossible times (' || reason || ')'
        END AS reason
    FROM rejected
    WHERE
        reason IN ('ts is out of range', 'dur is out of range', 'negative dur')
        OR starts_with(reason, 'ts is 0')
),

doubtful_fact AS (
    SELECT
        trace_id,
        sum(record_count) FILTER (reason IS NULL)::BIGINT AS unreturned_count,
        sum(record_count) FILTER (reason IS NOT NULL)::BIGINT AS doubtful_count,
        string_agg(record_count || ' ' || reason, '; ' ORDER BY record_count DESC, reason)
            AS doubts
    FROM (SELECT trace_id, reason, count(*) AS record_count FROM doubtful GROUP BY ALL) AS counted
    GROUP BY trace_id
),

idle_fact AS (
    SELECT
        trace_id,
        sum(idle_ns)::BIGINT AS idle_ns,
        coalesce(sum(idle_ns) FILTER (cause IN ('unknown', 'not_recorded')), 0)::BIGINT
            AS unknown_idle_ns,
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
        coalesce(s.stream_overlap_count, 0) AS stream_overlap_count,
        coalesce(s.dependent_overlap_count, 0) AS dependent_overlap_count,
        coalesce(u.doubtful_count, 0) AS doubtful_count,
        u.doubts,
        coalesce(u.unreturned_count, 0) AS unreturned_count,
        l.* EXCLUDE (trace_id),
        coalesce(n.lacking_step_count, 0) AS lacking_step_count,
        n.lacking_steps,
        coalesce(p.repeated_count, 0) AS repeated_count,
        e.* EXCLUDE (trace_id),
        i.* EXCLUDE (trace_id),
        m.cut_path_count,
        g.* EXCLUDE (trace_id),
        if(g.region_count IS NULL, NULL, coalesce(d.compiled_ns, 0)) AS compiled_ns,
        w.difference AS other_device,
        r.* EXCLUDE (trace_id)
    FROM trace AS t
    INNER JOIN accelerator AS a USING (trace_id)
    LEFT JOIN device_fact AS d USING (trace_id)
    LEFT JOIN stream_fact AS s USING (trace_id)
    LEFT JOIN doubtful_fact AS u USING (trace_id)
    LEFT JOIN launch_fact AS l USING (trace_id)
    LEFT JOIN step_fact AS n USING (trace_id)
    LEFT JOIN repeated_fact AS p USING (trace_id)
    INNER JOIN recording AS e USING (trace_id)
    LEFT JOIN idle_fact AS i USING (trace_id)
    LEFT JOIN module_fact AS m USING (trace_id)
    LEFT JOIN region_fact AS g USING (trace_id)
    LEFT JOIN newer_kernels() AS w USING (trace_id)
    INNER JOIN rank_facts() AS r USING (trace_id)
),

metric AS (
    SELECT
        trace_id, rank,
        unnest(
            [
                -- Implausible records: excluded from all results, or shortened to the plausible
                -- part.
                {
                    position: 0, metric: 'implausible_records', value: doubtful_count::DOUBLE,
                    unit: 'count',
                    severity: if(doubtful_count > 0, 'warn', 'ok'),
                    meaning: CASE
                        WHEN doubtful_count > 0
                            THEN
                                'records excluded from all figures, or shortened: ' || doubts
                                || '; see table implausible'
                        ELSE 'no record has an impossible time'
                    END
                },
                -- Completeness of the file.
                {
                    position: 1, metric: 'rejected', value: rejected_count::DOUBLE, unit: 'count',
                    severity: if(rejected_count > 0, 'warn', 'ok'),
                    meaning: 'parts of the file that could not be parsed; see table rejected'
                },
                {
                    position: 2, metric: 'repaired', value: repaired_count::DOUBLE, unit: 'count',
                    severity: if(repaired_count > 0, 'note', 'ok'),
                    meaning: 'events parsed after repairing their text; see table repaired'
                },
                {
                    position: 3, metric: 'truncated', value: is_truncated::INTEGER::DOUBLE,
                    unit: 'count',
                    severity: if(is_truncated, 'warn', 'ok'),
                    meaning: coalesce(truncation_reason, 'the file is complete')
                },
                {
                    position: 4, metric: 'rank_unknown',
                    value: coalesce(rank >= world_size, rank IS NULL)::INTEGER::DOUBLE,
                    unit: 'count',
                    severity: CASE
                        WHEN rank >= world_size THEN 'warn' WHEN rank IS NULL THEN 'note' ELSE 'ok'
                    END,
                    meaning: CASE
                        WHEN rank IS NULL THEN 'neither the file nor its name contains the rank'
                        WHEN rank >= world_size
                            THEN
                                'rank ' || rank || ' of a world of ' || world_size
                                || ' ranks is impossible: figures that need ranks are unknown'
                        ELSE 'rank from ' || rank_source
                    END
                },
                {
                    position: 14, metric: 'unfinished_ops',
                    value: unfinished_count::DOUBLE, unit: 'count',
                    severity: if(unfinished_count > 0, 'note', 'ok'),
                    meaning: 'events still running when the profiler stopped, and begin events '
                    || 'without an end; cut at the end of the recording'
                },
                {
                    position: 15, metric: 'profiler_overhead', value: overhead_ns::DOUBLE,
                    unit: 'ns',
                    severity: if(overhead_ns > 0, 'note', 'ok'),
                    meaning: 'profiler time as reported by the profiler, in '
                    || overhead_count || ' events'
                },
                {
                    position: 16, metric: 'stray_ends', value: stray_end_count::DOUBLE,
                    unit: 'count',
                    severity: if(stray_end_count > 0, 'note', 'ok'),
                    meaning: 'ends of spans whose begin is not in the file; see table unpaired'
                },
                {
                    position: 18, metric: 'unreturned_calls', value: unreturned_count::DOUBLE,
                    unit: 'count',
                    severity: if(unreturned_count > 0, 'note', 'ok'),
                    meaning: 'Python calls left by an exception or a generator and recorded until '
                    || 'the end; they count until their caller continues'
                },
                -- Presence and anomalies of device work.
                {
                    position: 7, metric: 'device_events',
                    value: CASE WHEN is_recorded THEN device_event_count END::DOUBLE,
                    unit: 'count',
                    severity: if(device_event_count = 0, 'warn', 'ok'),
                    meaning: CASE
                        WHEN NOT is_recorded THEN unrecorded_reason
                        WHEN device_event_count = 0 THEN 'the trace has no kernels or copies'
                        WHEN accelerator = 'cpu'
                            THEN
                                'no accelerator was recorded: CPU ops count as device work'
                        ELSE 'kernels, copies, and memsets'
                    END
                },
                {
                    position: 10, metric: 'device_time_classified',
                    value: 100.0 * coalesce(classified_ns, 0) / nullif(kernel_ns, 0), unit: 'pct',
                    severity: if(
                        coalesce(classified_ns, 0) >= 0.98 * coalesce(kernel_ns, 0), 'ok', 'note'
                    ),
                    meaning: 'device time with a class other than `other`; a rules file can add '
                    || 'classes'
                },
                {
                    position: 11, metric: 'zero_duration_device_events', value: zero_count::DOUBLE,
                    unit: 'count',
                    severity: if(zero_count > 0, 'note', 'ok'),
                    meaning: 'device events shorter than the clock resolution; counted, with 0 ns'
                },
                {
                    position: 12, metric: 'same_stream_overlaps',
                    value: CASE
                        WHEN accelerator <> 'cpu' AND device_event_count > 0
                            THEN stream_overlap_count
                    END::DOUBLE,
                    unit: 'count',
                    severity: if(accelerator <> 'cpu' AND stream_overlap_count > 0, 'note', 'ok'),
                    meaning: 'device events that start before an earlier event of the same stream '
                    || 'ends; overlapping time counts for only one of them'
                    || CASE
                        WHEN dependent_overlap_count > 0
                            THEN
                                '; ' || dependent_overlap_count || ' more overlap because of '
                                || 'dependent launches (cudaLaunchKernelEx), which is allowed'
                        ELSE ''
                    END
                },
                {
                    position: 13, metric: 'started_before_launch_returned',
                    value: CASE WHEN accelerator <> 'cpu' THEN before_launch_end_count END::DOUBLE,
                    unit: 'count',
                    severity: CASE
                        WHEN accelerator = 'cpu' THEN 'ok'
                        WHEN host_clock_ns IS NOT NULL OR before_launch_ns > 10000 THEN 'warn'
                        WHEN before_launch_count > 0 THEN 'note'
                        ELSE 'ok'
                    END,
                    meaning: 'device events that start before their launch call returns'
                    || CASE
                        WHEN accelerator = 'cpu' OR before_launch_count = 0 THEN ''
                        ELSE
                            format(
                                '; {} of them start up to {} µs before the call begins',
                                before_launch_count, round(before_launch_ns / 1e3, 1)
                            )
                    END || CASE
                        WHEN accelerator = 'cpu' THEN ''
                        WHEN host_clock_ns IS NOT NULL
                            THEN
                                '; the host clock has a resolution of '
                                || round(host_clock_ns / 1e6, 3) || ' ms: launch delays and idle '
                                || 'causes are unknown, and launches, steps, and phases are known '
                                || 'only to that resolution'
                        WHEN before_launch_count = 0 THEN ''
                        WHEN has_reused_ids
                            THEN
                                ': several calls share correlation ids, so op, step, and phase '
                                || 'of such events may be wrong'
                        ELSE
                            ': the host and device clocks differ, so launch delays and idle '
                            || 'causes are uncertain by that amount'
                    END
                },
                {
                    position: 17, metric: 'unknown_devices',
                    value: (coalesce(unknown_devices, other_device) IS NOT NULL)::INTEGER::DOUBLE,
                    unit: 'count',
                    severity: if(
                        coalesce(unknown_devices, other_device) IS NOT NULL, 'warn', 'ok'
                    ),
                    meaning: coalesce(
                        unknown_devices,
                        other_device || ': the recorded device name is wrong, and no peak is known',
                        'no process looks like an unknown device'
                    )
                },
                -- Share of device work linked to a launch. Work without a launch counts in all
                -- totals.
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
                        WHEN accelerator = 'cpu' THEN 'CPU ops have no launch'
                        WHEN kernel_ns > 0 AND NOT has_launches
                            THEN
                                'the file has no launch calls, so op, module, and phase of '
                                || 'device events are unknown'
                        ELSE 'device time linked to a launch in the trace'
                    END
                },
                {
                    position: 9, metric: 'unlinked_device_events',
                    value: CASE WHEN accelerator <> 'cpu' THEN unlinked_count END::DOUBLE,
                    unit: 'count',
                    severity: if(accelerator <> 'cpu' AND unlinked_count > 0, 'note', 'ok'),
                    meaning: 'device events without a launch in the trace (queued before it began, '
                    || 'or their runtime call was not recorded); they count in all totals'
                },
                {
                    position: 20, metric: 'device_time_in_op',
                    value: 100.0 * coalesce(op_ns, 0) / nullif(launched_ns, 0), unit: 'pct',
                    severity: if(
                        coalesce(op_ns, 0) >= 0.9 * coalesce(launched_ns, 0)
                        AND coalesce(replayed_count, 0) = 0,
                        'ok', 'note'
                    ),
                    meaning: CASE
                        WHEN replayed_count > 0
                            THEN
                                'linked device time launched inside an op; of '
                                || replayed_count || ' device events replayed by graphs, '
                                || matched_count || ' have op and module from the capture of their '
                                || 'graph (--capture FILE if it is in another file)'
                        WHEN coalesce(op_ns, 0) < 0.9 * launched_ns
                            THEN
                                'linked device time launched inside an op; the rest has no '
                                || 'recorded op'
                        ELSE 'linked device time launched inside an op'
                    END
                },
                {
                    position: 24, metric: 'launched_before_window',
                    value: CASE WHEN accelerator <> 'cpu' THEN before_window_count END::DOUBLE,
                    unit: 'count',
                    severity: if(before_window_count > 0, 'note', 'ok'),
                    meaning: CASE
                        WHEN accelerator = 'cpu' THEN 'CPU ops have no launch'
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
                    severity: if(has_launches AND missing_launch_count > 0, 'warn', 'ok'),
                    meaning: CASE
                        WHEN accelerator = 'cpu' THEN 'CPU ops have no launch'
                        WHEN NOT has_launches
                            THEN 'the file has no launch calls, so none is missing'
                        ELSE
                            'device events whose launch should be in the trace but is missing, '
                            || round(coalesce(missing_launch_ns, 0) / 1e6, 3) || ' ms'
                    END
                },
                {
                    position: 28, metric: 'launches_without_work',
                    value: CASE
                        WHEN kernel_ns IS NOT NULL AND accelerator <> 'cpu'
                            THEN 100.0 * workless_launch_count / launch_count
                    END,
                    unit: 'pct',
                    severity: CASE
                        WHEN kernel_ns IS NULL OR accelerator = 'cpu' THEN 'ok'
                        WHEN workless_launch_count >= 0.25 * launch_count THEN 'warn'
                        WHEN workless_launch_count >= 0.1 * launch_count THEN 'note'
                        ELSE 'ok'
                    END,
                    meaning: CASE
                        WHEN accelerator = 'cpu' THEN 'CPU ops have no launch'
                        WHEN launch_count IS NULL THEN 'the file has no launch calls'
                        WHEN captured_launch_count > 0
                            THEN
                                'launch calls without a device event in the file; '
                                || captured_launch_count || ' of ' || launch_count
                                || ' were captured in a graph, whose work is in the trace of its '
                                || 'replay; graph launches in this file: ' || replay_count
                        WHEN missing_replay_count > 0
                            THEN
                                'launch calls without a device event in the file; of '
                                || replay_count || ' graph replays, '
                                || missing_replay_count || ' were not recorded: device utilization '
                                || 'during them is unknown'
                        ELSE 'launch calls without a device event in the file'
                    END
                },
                {
                    position: 29, metric: 'steps_without_work',
                    value: CASE
                        WHEN kernel_ns IS NOT NULL AND accelerator <> 'cpu' THEN lacking_step_count
                    END::DOUBLE,
                    unit: 'count',
                    severity: if(
                        kernel_ns IS NOT NULL AND accelerator <> 'cpu' AND lacking_step_count > 0,
                        'warn', 'ok'
                    ),
                    meaning: CASE
                        WHEN lacking_step_count > 0
                            THEN
                                'steps with launches whose kernels are not in the file: '
                                || lacking_steps || '; means exclude steps without any kernels'
                        ELSE 'no step lacks the kernels that it launched'
                    END
                },
                {
                    position: 30, metric: 'repeated_step_numbers', value: repeated_count::DOUBLE,
                    unit: 'count', severity: if(repeated_count > 0, 'note', 'ok'),
                    meaning: CASE
                        WHEN repeated_count > 0
                            THEN
                                'steps that were renumbered because the recorded numbers repeat'
                        ELSE 'no step number repeats'
                    END
                },
                -- Share of device work with module, named row, and phase, and how they are known.
                {
                    position: 21, metric: 'device_time_in_module_or_row',
                    value: 100.0 * coalesce(placed_ns, 0) / nullif(launched_ns, 0), unit: 'pct',
                    severity: if(
                        coalesce(placed_ns, 0) >= 0.97 * coalesce(launched_ns, 0), 'ok', 'note'
                    ),
                    meaning: CASE
                        WHEN has_modules
                            THEN
                                'linked device time attributed to a module, range, or named '
                                || 'row; the rest is (unattributed)'
                        ELSE
                            'linked device time attributed to a named row; the trace has no '
                            || 'modules (record with_stack, or with ranges)'
                    END
                },
                {
                    position: 22, metric: 'device_time_in_phase',
                    value: 100.0 * coalesce(phase_ns, 0) / nullif(kernel_ns, 0), unit: 'pct',
                    severity: if(
                        coalesce(phase_ns, 0) >= 0.97 * coalesce(kernel_ns, 0), 'ok', 'note'
                    ),
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
                    meaning: 'device time whose phase or module is not known from its launch, but '
                    || 'inferred from adjacent launches, names, or repeated patterns; a warning '
                    || 'above 25 %'
                },
                {
                    position: 26, metric: 'compiled_region_device_time',
                    value: CASE
                        WHEN region_count IS NOT NULL
                            THEN 100.0 * compiled_ns / nullif(kernel_ns, 0)
                    END,
                    unit: 'pct',
                    severity: if(compiled_ns > 0, 'note', 'ok'),
                    meaning: CASE
                        WHEN region_count IS NULL THEN 'the trace has no torch.compile regions'
                        ELSE
                            'device time launched inside compiled regions'
                            || coalesce(' (graphs ' || graphs || ')', '')
                            || '; modules inside have no ranges, so their time counts for the '
                            || 'module that calls the region; see analysis compiled'
                    END
                },
                {
                    position: 27, metric: 'cut_module_paths', value: cut_path_count::DOUBLE,
                    unit: 'count',
                    severity: if(cut_path_count > 0, 'note', 'ok'),
                    meaning: CASE
                        WHEN cut_path_count IS NULL THEN 'the trace has no modules'
                        ELSE
                            'modules with paths above 2,000 characters, shortened in the middle'
                    END
                },
                -- Share of idle time with a known cause.
                {
                    position: 40, metric: 'idle_explained',
                    value: 100.0 * (idle_ns - unknown_idle_ns) / nullif(idle_ns, 0), unit: 'pct',
                    severity: if(
                        coalesce(unknown_idle_ns, 0) <= 0.1 * coalesce(idle_ns, 0), 'ok', 'note'
                    ),
                    meaning: CASE
                        WHEN idle_ns IS NULL THEN 'no device was idle'
                        ELSE 'idle time with a cause other than unknown and not_recorded'
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
                                'gaps before kernels that were launched in time, longer than '
                                || 'usual and unexplained, '
                                || round(late_start_ns / 1e6, 1) || ' ms; events may be missing (a '
                                || 'warning above 1 % of the window)'
                        ELSE 'unexplained gaps before kernels that were launched in time'
                    END
                }
            ]
        ) AS fact
    FROM fact
    UNION ALL
    SELECT * FROM health_of_ranks('fact')
)

SELECT rank, fact.metric, fact.value, fact.unit, fact.severity, fact.meaning
FROM metric
ORDER BY rank NULLS LAST, trace_id, fact.position
