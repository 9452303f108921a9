-- Which steps of training or serving did the program mark?
-- tk/step/N of tracekit's collectors, else ProfilerStep#N of torch.profiler, which in files of 2021 and before is
-- an op. Where a step was marked and the program then evaluated, it begins anew after that: tk/step/N anew. The last
-- step of a program ends with its optimizer, whatever the program did until it ended: tk/step/N ended T ns ago. Where a
-- number comes again, apart in time, steps are numbered anew in their order.
--
-- Kind:     table
-- Columns:
--   trace_id  INTEGER -> trace  the trace
--   step      BIGINT            number of the step
--   name      VARCHAR           name of the range
--   ts_ns     BIGINT            start on the CPU, ns
--   dur_ns    BIGINT            duration on the CPU, ns
--   end_ns    BIGINT            end on the CPU, ns

WITH step_range AS MATERIALIZED (
    SELECT trace_id, name, ts_ns, dur_ns
    FROM event
    WHERE
        (starts_with(name, 'ProfilerStep#') OR starts_with(name, 'tk/step/'))
        AND (is_annotation(category) OR is_op(category))
),

marked AS (
    SELECT
        trace_id, name, ts_ns,
        regexp_extract(name, '^(?:tk/step/|ProfilerStep#)(\d{1,18})', 1)::BIGINT AS step,
        ts_ns - try_cast(regexp_extract(name, ' ended (\d{1,18}) ns ago$', 1) AS BIGINT) AS over_ns,
        least(ts_ns + dur_ns, min(over_ns) OVER (PARTITION BY trace_id, step)) AS end_ns
    FROM step_range
    WHERE regexp_matches(name, '^(?:tk/step/|ProfilerStep#)\d')
),

chosen AS (
    SELECT
        trace_id, step, name, ts_ns, end_ns,
        coalesce(gap_before_ns((trace_id, step), ts_ns, end_ns, name) >= 0, FALSE) AS comes_again
    FROM marked
    WHERE over_ns IS NULL AND end_ns >= ts_ns
    QUALIFY
        (name LIKE 'tk/%') = bool_or(name LIKE 'tk/%') OVER (PARTITION BY trace_id)
        AND (
            name LIKE '% anew'
            OR NOT bool_or(name LIKE '% anew') OVER (PARTITION BY trace_id, step)
        )
),

-- How often the number of each came before it, apart in time.
counted AS (
    SELECT
        *,
        count_if(comes_again) OVER (PARTITION BY trace_id, step ORDER BY ts_ns, name) AS again,
        bool_or(comes_again) OVER (PARTITION BY trace_id) AS repeats
    FROM chosen
),

begun AS (
    SELECT *, min(ts_ns) OVER (PARTITION BY trace_id, step, again) AS begun_ns
    FROM counted
)

SELECT
    trace_id,
    if(
        repeats,
        min(step) OVER (PARTITION BY trace_id)
        + dense_rank() OVER (PARTITION BY trace_id ORDER BY begun_ns, step) - 1,
        step
    ) AS step,
    name, ts_ns,
    end_ns - ts_ns AS dur_ns,
    end_ns
FROM begun
ORDER BY trace_id, ts_ns
