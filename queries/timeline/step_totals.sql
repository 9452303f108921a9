-- How long did the steps of the run take, on all devices?
-- Lengths are those on the device: the host may run ahead, and then its ranges measure only itself. One row, none where
-- the traces mark no steps.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   steps
-- Input:    steps
-- Columns:
--   step_count    BIGINT  steps that put work on a device, each once for every device
--   rank_count    BIGINT  ranks that have such steps; those of unknown rank are one
--   mean_span_ns  DOUBLE  mean length, ns; NULL without such steps
--   min_span_ns   BIGINT  the shortest, ns
--   max_span_ns   BIGINT  the longest, ns
--   wall_ns       BIGINT  busy time of the devices, inside of steps and outside, ns
--   outside_ns    BIGINT  of that, of what was launched outside of all steps, ns
--   queued_ns     BIGINT  of that, of what was launched before the recording began, ns
--   step_work_ns  DOUBLE  mean busy time of a device in a step, ns; NULL without such steps
--   outside_pct   DOUBLE  outside_ns of wall_ns, 0 to 100
-- Invariant: queued_ns <= outside_ns AND outside_ns <= wall_ns
-- Invariant: step_count = 0 OR (min_span_ns <= mean_span_ns AND mean_span_ns <= max_span_ns)
-- Empty: no step is marked: call step() of the profiler in the loop, or name the ranges of steps with --step

SELECT
    count(step) FILTER (span_ns IS NOT NULL) AS step_count,
    count(DISTINCT coalesce(rank, -1)) FILTER (step IS NOT NULL AND span_ns IS NOT NULL)
        AS rank_count,
    avg(span_ns) FILTER (step IS NOT NULL) AS mean_span_ns,
    min(span_ns) FILTER (step IS NOT NULL) AS min_span_ns,
    max(span_ns) FILTER (step IS NOT NULL) AS max_span_ns,
    sum(wall_ns)::BIGINT AS wall_ns,
    coalesce(sum(wall_ns) FILTER (step IS NULL), 0)::BIGINT AS outside_ns,
    coalesce(sum(queued_ns) FILTER (step IS NULL), 0)::BIGINT AS queued_ns,
    avg(wall_ns) FILTER (step IS NOT NULL AND span_ns IS NOT NULL) AS step_work_ns,
    100.0 * coalesce(sum(wall_ns) FILTER (step IS NULL), 0)::BIGINT
    / nullif(sum(wall_ns)::BIGINT, 0) AS outside_pct
FROM steps
HAVING count(*) > 0
