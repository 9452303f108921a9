-- Data-quality checks of runs.
-- For a single run, analysis `health` appends these rows. Metrics that do not apply have no row.
--
-- Kind:     analysis
-- Scope:    runs
-- Family:   health per run
-- Columns:
--   run       VARCHAR
--   metric    VARCHAR  name of the check
--   value     DOUBLE   value
--   unit      VARCHAR  count or pct
--   severity  VARCHAR  ok, note, or warn
--   meaning   VARCHAR  effect of the value on the results
-- Invariant: severity IN ('ok', 'note', 'warn')
-- Invariant: unit IN ('count', 'pct') AND value IS NOT NULL AND meaning IS NOT NULL

WITH request_fact AS (
    SELECT
        run_id,
        count(*) FILTER (NOT is_warmup AND NOT is_profiled) AS measured_count,
        count(*) FILTER (NOT is_warmup AND NOT is_profiled AND outcome <> 'ok') AS left_out_count
    FROM request
    GROUP BY run_id
),

bench_fact AS (
    SELECT
        run_id,
        count(*) FILTER (outcome <> 'ok') AS without_time_count,
        count(*) FILTER (outcome = 'ok') AS timed_count,
        count(*) FILTER (
            outcome = 'ok' AND NOT coalesce(high_ns - low_ns <= 0.1 * median_ns, FALSE)
        ) AS wide_count
    FROM benchmark
    GROUP BY run_id
),

fact AS (
    SELECT
        r.*,
        r.outcome = 'unreadable' AS is_unreadable,
        100.0 * r.tokens_per_s_std / nullif(r.tokens_per_s_mean, 0) AS spread_pct,
        100.0 * (r.profiled_step_ns / nullif(s.median_ns, 0) - 1) AS slowdown_pct,
        q.measured_count, q.left_out_count, b.without_time_count, b.timed_count, b.wide_count,
        r.stage = 'bench' OR r.benchmark_count > 0 AS is_bench
    FROM run AS r
    LEFT JOIN request_fact AS q ON r.run_id = q.run_id
    LEFT JOIN run_step() AS s ON r.run_id = s.run_id
    LEFT JOIN bench_fact AS b ON r.run_id = b.run_id
),

metric AS (
    SELECT
        folder_name, run_id,
        unnest([
            {
                position: 1, metric: 'manifest_unreadable', value: is_unreadable::INTEGER::DOUBLE,
                unit: 'count',
                severity: if(is_unreadable, 'warn', 'ok'),
                meaning: if(is_unreadable, reason, 'run.json was read')
            },
            {
                position: 2, metric: 'run_not_ok',
                value: if(is_unreadable, NULL, outcome <> 'ok')::INTEGER::DOUBLE, unit: 'count',
                severity: if(outcome = 'ok', 'ok', 'warn'),
                meaning: if(
                    outcome = 'ok', 'the run succeeded',
                    outcome || ': ' || coalesce(reason, 'no reason was recorded')
                )
            },
            {
                position: 3, metric: 'missing_trace_files', value: missing_trace_count::DOUBLE,
                unit: 'count',
                severity: if(missing_trace_count > 0, 'warn', 'ok'),
                meaning: 'trace files named in run.json that are missing from the folder'
            },
            {
                position: 4, metric: 'tokens_per_s_spread', value: spread_pct, unit: 'pct',
                severity: if(spread_pct > 5, 'note', 'ok'),
                meaning: 'standard deviation of tokens/s over the repeats, relative to their mean'
            },
            {
                position: 5, metric: 'profiled_step_slowdown', value: slowdown_pct, unit: 'pct',
                severity: if(slowdown_pct > 20, 'note', 'ok'),
                meaning: 'slowdown of a step caused by ranges and the profiler'
            },
            {
                position: 6, metric: 'rejected_request_lines',
                value: if(
                    is_bench IS NOT TRUE AND request_count + rejected_count > 0,
                    rejected_count, NULL
                )::DOUBLE,
                unit: 'count',
                severity: if(rejected_count > 0, 'warn', 'ok'),
                meaning: 'lines of requests.jsonl that could not be parsed; see table rejected'
            },
            {
                position: 7, metric: 'requests_left_out', value: left_out_count::DOUBLE,
                unit: 'count',
                severity: CASE
                    WHEN 100.0 * left_out_count / nullif(measured_count, 0) > 5 THEN 'warn'
                    WHEN left_out_count > 0 THEN 'note'
                    ELSE 'ok'
                END,
                meaning: 'requests that failed, of ' || measured_count
                || ' measured requests; excluded from all figures'
            },
            {
                position: 8, metric: 'requests_missing',
                value: if(
                    load_request_count IS NULL, NULL,
                    greatest(load_request_count - coalesce(measured_count, 0), 0)
                )::DOUBLE,
                unit: 'count',
                severity: if(load_request_count > coalesce(measured_count, 0), 'warn', 'ok'),
                meaning: 'requests of the load that are missing from requests.jsonl'
            },
            {
                position: 9, metric: 'rejected_benchmark_lines',
                value: if(
                    is_bench AND benchmark_count + rejected_count > 0, rejected_count, NULL
                )::DOUBLE,
                unit: 'count',
                severity: if(rejected_count > 0, 'warn', 'ok'),
                meaning: 'lines of benchmarks.jsonl (or requests.jsonl) that could not be parsed; '
                || 'see table rejected'
            },
            {
                position: 10, metric: 'points_without_time', value: without_time_count::DOUBLE,
                unit: 'count',
                severity: if(without_time_count > 0, 'note', 'ok'),
                meaning: 'points that could not be measured; see table benchmark for the reasons'
            },
            {
                position: 11, metric: 'points_with_wide_interval',
                value: if(timed_count > 0, 100.0 * wide_count / timed_count, NULL),
                unit: 'pct',
                severity: CASE
                    WHEN 100.0 * wide_count / nullif(timed_count, 0) > 50 THEN 'warn'
                    WHEN wide_count > 0 THEN 'note'
                    ELSE 'ok'
                END,
                meaning: 'points whose 95 % interval is missing or wider than 10 % of the median; '
                || 'possible causes: other load on the machine, too little time'
            }
        ]) AS fact
    FROM fact
)

SELECT folder_name AS run, fact.metric, fact.value, fact.unit, fact.severity, fact.meaning
FROM metric
WHERE fact.value IS NOT NULL
ORDER BY run_id, fact.position
