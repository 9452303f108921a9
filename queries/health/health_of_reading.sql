-- Was the file read whole?
-- What is wrong with the file: what could not be read, and what the profiler cut.
-- health_of_reading('fact') is a relation of metrics; health puts the facts together.
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

CREATE OR REPLACE MACRO health_of_reading(facts) AS TABLE (
    SELECT
        trace_id,
        rank,
        unnest(
            [
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
                }
            ]
        ) AS fact
    FROM query_table(facts)
);
