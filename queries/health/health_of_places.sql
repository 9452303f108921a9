-- How much of the work of devices has a module, a row and a phase, and how is that known?
-- Work without a place is in the rows in parentheses and in phase other; what is known by inference is counted here.
-- health_of_places('fact') is a relation of metrics; health puts the facts together.
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

CREATE OR REPLACE MACRO health_of_places(facts) AS TABLE (
    SELECT
        trace_id,
        rank,
        unnest(
            [
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
                }
            ]
        ) AS fact
    FROM query_table(facts)
);
