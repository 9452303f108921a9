-- Is the work of the devices in the file, and what is odd about it?
-- What was recorded of the devices, and which of it has no class, no length, or runs where other work of its stream does.
-- health_of_devices('fact') is a relation of metrics; health puts the facts together.
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

CREATE OR REPLACE MACRO health_of_devices(facts) AS TABLE (
    SELECT
        trace_id,
        rank,
        unnest(
            [
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
                }
            ]
        ) AS fact
    FROM query_table(facts)
);
