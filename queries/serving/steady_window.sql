-- Which steps of serving are a steady state?
-- The longest run of steps in which the number of running requests stays within tolerance_pct of its maximum in the
-- trace, from the start of its first step to the end of its last; of equally long ones the first. Running are the
-- requests in the batch of a step that decodes. A step that only reads prompts is not judged: an engine that does not
-- mix has its running requests wait meanwhile. Such steps between two steps of the run belong to it. In a trace
-- without decoding, steps are judged by the prompts they read. steady_window('serving_step_ranges', 10) is a relation with
-- one row for each trace whose steps all tell their batch.
--
-- Kind:     function
-- Access:   private
-- Params:
--   steps          VARCHAR  name of the relation of steps: view serving_step_ranges
--   tolerance_pct  DOUBLE   how far below its maximum the number of running requests may be, 0 to 100
-- Columns:
--   trace_id           INTEGER  the trace
--   start_ns           BIGINT   start of its first step on the CPU, ns
--   end_ns             BIGINT   end of its last step on the CPU, ns
--   max_running_count  BIGINT   running requests at most, in the trace

CREATE OR REPLACE MACRO steady_window(steps, tolerance_pct) AS TABLE (
    WITH told AS (
        SELECT
            *,
            bool_or(phase <> 'prefill') OVER (PARTITION BY trace_id) AS has_decode,
            bool_and(request_count IS NOT NULL) OVER (PARTITION BY trace_id) AS is_told
        FROM query_table(steps)
    ),

    judged AS (
        SELECT
            trace_id, step, ts_ns, end_ns, request_count,
            max(request_count) OVER (PARTITION BY trace_id) AS max_running_count
        FROM told
        WHERE is_told AND (phase <> 'prefill' OR NOT has_decode)
    ),

    flagged AS (
        SELECT *, 100.0 * request_count >= (100.0 - tolerance_pct) * max_running_count AS is_within
        FROM judged
    ),

    numbered AS (
        SELECT
            *,
            count(if(NOT is_within, 1, NULL)) OVER (
                PARTITION BY trace_id ORDER BY ts_ns, step
            ) AS stretch
        FROM flagged
    ),

    run AS (
        SELECT
            trace_id,
            min(ts_ns) AS start_ns,
            max(end_ns) AS end_ns,
            any_value(max_running_count) AS max_running_count
        FROM numbered
        WHERE is_within
        GROUP BY trace_id, stretch
    )

    SELECT DISTINCT ON (trace_id)
        trace_id, start_ns, end_ns, max_running_count
    FROM run
    ORDER BY trace_id, end_ns - start_ns DESC, start_ns
);
