-- Steady state of each trace: steady_window('serving_step_ranges', 10).
-- See `serving_window`. If several sequences of steps are equally long, the first one is used. In traces without decode
-- steps, prefill steps count. Traces with unknown batches have no row.
--
-- Kind:     function
-- Access:   private
-- Params:
--   steps          VARCHAR  name of the relation of steps, such as serving_step_ranges
--   tolerance_pct  DOUBLE   allowed distance from the maximum number of running requests, 0 to 100
-- Columns:
--   trace_id INTEGER, start_ns BIGINT, end_ns BIGINT, max_running_count BIGINT

CREATE OR REPLACE MACRO steady_window(steps, tolerance_pct) AS TABLE (
    WITH with_counts AS (
        SELECT
            *,
            bool_or(phase <> 'prefill') OVER (PARTITION BY trace_id) AS has_decode,
            bool_and(request_count IS NOT NULL) OVER (PARTITION BY trace_id) AS has_counts
        FROM query_table(steps)
    ),

    judged AS (
        SELECT
            trace_id, step, ts_ns, end_ns,
            max(request_count) OVER (PARTITION BY trace_id) AS max_running_count,
            100.0 * request_count >= (100.0 - tolerance_pct) * max_running_count AS is_within
        FROM with_counts
        WHERE has_counts AND (phase <> 'prefill' OR NOT has_decode)
    ),

    numbered AS (
        SELECT
            *,
            count(if(NOT is_within, 1, NULL)) OVER (
                PARTITION BY trace_id ORDER BY ts_ns, step
            ) AS section
        FROM judged
    ),

    run AS (
        SELECT
            trace_id,
            min(ts_ns) AS start_ns,
            max(end_ns) AS end_ns,
            any_value(max_running_count) AS max_running_count
        FROM numbered
        WHERE is_within
        GROUP BY trace_id, section
    )

    SELECT DISTINCT ON (trace_id)
        trace_id, start_ns, end_ns, max_running_count
    FROM run
    ORDER BY trace_id, end_ns - start_ns DESC, start_ns
);
