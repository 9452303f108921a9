-- How much of the idle time has a cause?
-- Gaps of unknown cause may be due to events that are not in the file.
-- health_of_idle('fact') is a relation of metrics; health puts the facts together.
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

CREATE OR REPLACE MACRO health_of_idle(facts) AS TABLE (
    SELECT
        trace_id,
        rank,
        unnest(
            [
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
