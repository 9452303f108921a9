-- How much of the work of devices leads to the call that launched it?
-- Work without its launch stays in every total, but nothing tells the op, module or phase that it belongs to.
-- health_of_links('fact') is a relation of metrics; health puts the facts together.
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

CREATE OR REPLACE MACRO health_of_links(facts) AS TABLE (
    SELECT
        trace_id,
        rank,
        unnest(
            [
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
                        WHEN launch_count IS NULL
                            THEN 'the file holds no call that launches work'
                        WHEN captured_launch_count > 0
                            THEN
                                'calls that launch work without a device event of theirs in the '
                                || 'file; ' || captured_launch_count || ' of ' || launch_count
                                || ' were captured in a graph, whose work is in the trace of its '
                                || 'replay; graph launches in this file: ' || replay_count
                        ELSE
                            'calls that launch work without a device event of theirs in the file'
                    END
                }
            ]
        ) AS fact
    FROM query_table(facts)
);
