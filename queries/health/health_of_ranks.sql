-- Checks of missing and duplicate ranks: health_of_ranks('fact').
-- Besides `facts`, it reads only table `trace`, so it can also check ranks that were loaded separately.
--
-- Kind:   function
-- Access: private
-- Params:
--   facts  VARCHAR  relation with facts of each trace, including the columns of rank_facts()
-- Columns:
--   trace_id INTEGER, rank INTEGER
--   fact STRUCT(position INTEGER, metric VARCHAR, value DOUBLE, unit VARCHAR, severity VARCHAR, meaning VARCHAR)

CREATE OR REPLACE MACRO rank_facts() AS TABLE (
    WITH placed AS (
        SELECT
            trace_id, rank, world_size,
            gap_before_ns(rank, first_ts_ns, last_end_ns, trace_id) AS gap_ns
        FROM trace
    )

    SELECT
        trace_id,
        count(*) OVER (PARTITION BY rank) AS same_rank_count,
        min(gap_ns) OVER (PARTITION BY rank) >= 0 AS are_cycles,
        count(DISTINCT rank) OVER () AS rank_count,
        max(world_size) OVER () AS job_size
    FROM placed
);

CREATE OR REPLACE MACRO health_of_ranks(facts) AS TABLE (
    SELECT
        trace_id, rank,
        unnest(
            [
                {
                    position: 5, metric: 'duplicate_ranks',
                    value: CASE WHEN rank IS NOT NULL THEN same_rank_count - 1 END::DOUBLE,
                    unit: 'count',
                    severity: CASE
                        WHEN rank IS NOT NULL AND same_rank_count > 1 AND NOT are_cycles
                            THEN 'warn'
                        WHEN rank IS NOT NULL AND same_rank_count > 1 THEN 'note'
                        ELSE 'ok'
                    END,
                    meaning: CASE
                        WHEN are_cycles
                            THEN
                                'other files of the same rank, recorded one after the other '
                                || '(profiler cycles); each is shown separately'
                        ELSE 'other files that claim the same rank; each is shown separately'
                    END
                },
                {
                    position: 6, metric: 'missing_ranks',
                    value: CASE
                        WHEN job_size IS NOT NULL THEN greatest(job_size - rank_count, 0)
                    END::DOUBLE,
                    unit: 'count',
                    severity: CASE WHEN job_size > rank_count THEN 'note' ELSE 'ok' END,
                    meaning: CASE
                        WHEN job_size IS NULL THEN 'the trace does not contain the size of the job'
                        ELSE format('ranks without a trace, out of {} in the job', job_size)
                    END
                }
            ]
        ) AS fact
    FROM query_table(facts)
);
