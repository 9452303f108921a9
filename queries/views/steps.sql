-- Which steps of training or serving did the program mark?
-- tk/step/N of tracekit's collectors, else ProfilerStep#N of torch.profiler.
--
-- Kind:     view
-- Requires: annotations
-- Columns:
--   trace_id  INTEGER  the trace
--   step      BIGINT   number of the step
--   name      VARCHAR  name of the range
--   ts_ns     BIGINT   start on the CPU, ns
--   dur_ns    BIGINT   duration on the CPU, ns
--   end_ns    BIGINT   end on the CPU, ns

SELECT
    trace_id,
    try_cast(regexp_extract(name, '^(?:tk/step/|ProfilerStep#)(\d+)', 1) AS BIGINT) AS step,
    name,
    ts_ns,
    dur_ns,
    ts_ns + dur_ns AS end_ns
FROM annotations
WHERE regexp_matches(name, '^(?:tk/step/|ProfilerStep#)\d+')
QUALIFY
    (name LIKE 'tk/%') = bool_or(name LIKE 'tk/%') OVER (PARTITION BY trace_id)
