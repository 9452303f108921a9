-- Step lengths and busy time per step over all devices, in one row.
-- Lengths are measured on the device because the host may run ahead.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   steps per total
-- Input:    steps
-- Columns:
--   step_count    BIGINT  number of steps with device work, counted per device
--   rank_count    BIGINT  number of ranks with these steps
--   mean_span_ns  DOUBLE  mean length, ns; NULL without steps
--   min_span_ns   BIGINT  length of the shortest step, ns
--   max_span_ns   BIGINT  length of the longest step, ns
--   wall_ns       BIGINT  busy time inside and outside steps, ns; overlap counts once
--   outside_ns    BIGINT  part of wall_ns from work launched outside steps, ns
--   queued_ns     BIGINT  part of wall_ns from work launched before the recording, ns
--   step_work_ns  DOUBLE  mean busy time of a device per step, from work launched in steps, ns; NULL without steps
--   step_other_ns DOUBLE  mean busy time, during a step, of work launched outside steps, ns; NULL without steps
--   outside_pct   DOUBLE  outside_ns as a share of wall_ns, 0 to 100
-- Invariant: queued_ns <= outside_ns AND outside_ns <= wall_ns
-- Invariant: step_count = 0 OR (min_span_ns <= mean_span_ns AND mean_span_ns <= max_span_ns)
-- Empty: no steps are marked: call the profiler's step() in the loop, or name the ranges of steps with --step

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
    avg(other_ns) AS step_other_ns,
    100.0 * coalesce(sum(wall_ns) FILTER (step IS NULL), 0)::BIGINT
    / nullif(sum(wall_ns)::BIGINT, 0) AS outside_pct
FROM steps
HAVING count(*) > 0
