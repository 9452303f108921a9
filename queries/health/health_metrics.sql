-- What is in the trace, what is missing, and how far do its parts lead?
-- health_metrics('fact') is a relation of metrics of the trace by itself, a struct for each; health puts them together
-- with those of health_of_ranks.
--
-- Kind:   macro
-- Access: private
-- Params:
--   facts  VARCHAR  name of the relation of what is known of each trace: fact, in health
-- Columns:
--   trace_id  INTEGER  the trace
--   rank      INTEGER  global rank
--   fact      STRUCT(position INTEGER, metric VARCHAR, value DOUBLE, unit VARCHAR, severity VARCHAR, meaning VARCHAR)
--             a row of health, and its place

CREATE OR REPLACE MACRO health_metrics(facts) AS TABLE (
    SELECT
        trace_id, rank,
        unnest(
            [
                -- Was the file read whole?
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
                    position: 14, metric: 'unfinished_ops',
                    value: unfinished_count::DOUBLE, unit: 'count',
                    severity: CASE WHEN unfinished_count > 0 THEN 'note' ELSE 'ok' END,
                    meaning: 'events that still ran when the profiler stopped, and begins without '
                    || 'an end; cut at its end'
                },
                {
                    position: 15, metric: 'profiler_overhead', value: overhead_ns::DOUBLE,
                    unit: 'ns',
                    severity: CASE WHEN overhead_ns > 0 THEN 'note' ELSE 'ok' END,
                    meaning: 'time that the profiler says it spent itself, in '
                    || overhead_count || ' events'
                },
                {
                    position: 16, metric: 'stray_ends', value: stray_end_count::DOUBLE,
                    unit: 'count',
                    severity: CASE WHEN stray_end_count > 0 THEN 'note' ELSE 'ok' END,
                    meaning: 'ends of spans whose begin is not in the file; see table unpaired'
                },
                -- Is the work of the devices in the file, and what is odd about it?
                {
                    position: 7, metric: 'device_events',
                    value: CASE WHEN is_recorded THEN device_event_count END::DOUBLE,
                    unit: 'count',
                    severity: CASE WHEN device_event_count = 0 THEN 'warn' ELSE 'ok' END,
                    meaning: CASE
                        WHEN NOT is_recorded THEN unrecorded_reason
                        WHEN device_event_count = 0 THEN 'no work of a device is in the trace'
                        WHEN accelerator = 'cpu'
                            THEN
                                'no accelerator was recorded: the ops of the CPU are the device '
                                || 'work'
                        ELSE 'kernels, copies and memsets'
                    END
                },
                {
                    position: 10, metric: 'device_time_classified',
                    value: 100.0 * coalesce(classified_ns, 0) / nullif(kernel_ns, 0), unit: 'pct',
                    severity: CASE
                        WHEN coalesce(classified_ns, 0) >= 0.98 * coalesce(kernel_ns, 0) THEN 'ok'
                        ELSE 'note'
                    END,
                    meaning: 'device time of a class other than `other`; a rules file can add '
                    || 'classes'
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
                    position: 17, metric: 'unknown_devices',
                    value: (unknown_devices IS NOT NULL)::INTEGER::DOUBLE, unit: 'count',
                    severity: CASE WHEN unknown_devices IS NOT NULL THEN 'warn' ELSE 'ok' END,
                    meaning: coalesce(
                        unknown_devices, 'no process looks like a device that is not known'
                    )
                },
                -- How much of the work of devices leads to the call that launched it? Work without its launch stays in every total.
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
                                'the file holds no call that launches work: nothing tells which '
                                || 'op, module or phase the work of the device belongs to'
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
                    meaning: 'device events without a launch in the trace (queued before it began, '
                    || 'or their runtime call was not recorded); they count in every total'
                },
                {
                    position: 20, metric: 'device_time_in_op',
                    value: 100.0 * coalesce(op_ns, 0) / nullif(launched_ns, 0), unit: 'pct',
                    severity: CASE
                        WHEN coalesce(op_ns, 0) >= 0.9 * coalesce(launched_ns, 0) THEN 'ok'
                        ELSE 'note'
                    END,
                    meaning: 'linked device time whose launch is inside of an op'
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
                        WHEN accelerator = 'cpu' THEN 'ops of the CPU have no launch'
                        WHEN launch_count IS NULL THEN 'the file holds no call that launches work'
                        WHEN captured_launch_count > 0
                            THEN
                                'calls that launch work without a device event of theirs in the '
                                || 'file; ' || captured_launch_count || ' of ' || launch_count
                                || ' were captured in a graph, whose work is in the trace of its '
                                || 'replay; graph launches in this file: ' || replay_count
                        ELSE
                            'calls that launch work without a device event of theirs in the file'
                    END
                },
                -- How much of it has a module, a row and a phase, and how is that known?
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
                                'linked device time on a module, a range or a named row; the rest '
                                || 'is (unattributed)'
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
                    meaning: 'device time whose phase or place does not come from its launch, but '
                    || 'from its neighbours, its name or what it repeats; a warning from 25 % on'
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
                            'modules whose paths, beyond 2,000 characters, show two ends only and '
                            || 'how much is left out'
                    END
                },
                -- How much of the idle time has a cause?
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
                                'gaps before work that was launched in time, longer than launches '
                                || 'take and without a reason in the file, '
                                || round(late_start_ns / 1e6, 1) || ' ms; events may be missing (a '
                                || 'warning from 1 % of the window on)'
                        ELSE 'gaps before work that was launched in time and started late'
                    END
                }
            ]
        ) AS fact
    FROM query_table(facts)
);
