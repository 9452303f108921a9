-- Marked steps of training or serving, on the host.
-- Sources, in order of preference: tk/step/N of tracekit's collectors, ranges that user rules define as steps,
-- ProfilerStep#N of torch.profiler, and the time up to the end of each Optimizer.step. If a step continues after an
-- evaluation, it restarts there ("anew" in the range name). The last step may have ended early ("ended T ns ago"). If
-- step numbers recur, steps are renumbered in time order.
--
-- Kind:     table
-- Columns:
--   trace_id INTEGER -> trace, step BIGINT
--   name    VARCHAR  name of the range
--   ts_ns   BIGINT   start on the host, ns
--   dur_ns  BIGINT   duration on the host, ns
--   end_ns  BIGINT   end on the host, ns

WITH step_range AS MATERIALIZED (
    SELECT
        e.trace_id, e.name, e.ts_ns,
        e.ts_ns + e.dur_ns AS end_ns,
        CASE
            WHEN starts_with(e.name, 'tk/step/') THEN 1
            WHEN starts_with(e.name, 'ProfilerStep#') THEN 3
            WHEN r.means = 'step' THEN 2
            ELSE 4
        END AS form
    FROM event AS e
    INNER JOIN scratch.classified_range AS d USING (category, name)
    INNER JOIN range_rule AS r USING (rule_id)
    WHERE r.means = 'step' OR (is_annotation(e.category) AND starts_with(e.name, 'Optimizer.step#'))
    QUALIFY form = min(form) OVER (PARTITION BY e.trace_id)
),

-- Of nested optimizers, the outer one counts.
updated AS (
    SELECT
        trace_id, name,
        latest_end_before_ns(trace_id, ts_ns, end_ns, name) AS before_ns,
        end_ns
    FROM step_range
    WHERE form = 4
    QUALIFY ts_ns >= before_ns OR before_ns IS NULL
),

-- The span of the profiler itself starts milliseconds before the program continues.
program_start AS (
    SELECT trace_id, min(ts_ns) AS ts_ns
    FROM event
    SEMI JOIN updated USING (trace_id)
    WHERE
        is_op(category)
        OR is_launch_call(category)
        OR is_annotation(category)
        OR is_python_call(category)
    GROUP BY trace_id
),

marked AS (
    SELECT
        trace_id, name, ts_ns, form,
        coalesce(try_cast(regexp_extract(name, '\d{1,18}') AS BIGINT), 0) AS step,
        CASE
            WHEN form = 1
                THEN
                    ts_ns
                    - try_cast(regexp_extract(name, ' ended (\d{1,18}) ns ago$', 1) AS BIGINT)
        END AS over_ns,
        least(end_ns, min(over_ns) OVER (PARTITION BY trace_id, step)) AS end_ns
    FROM step_range
    WHERE form < 4
    UNION ALL
    SELECT
        u.trace_id, u.name,
        coalesce(u.before_ns, p.ts_ns) AS ts_ns,
        4 AS form,
        row_number() OVER (PARTITION BY u.trace_id ORDER BY u.end_ns) AS step,
        NULL AS over_ns,
        u.end_ns
    FROM updated AS u
    INNER JOIN program_start AS p USING (trace_id)
),

chosen AS (
    SELECT
        trace_id, step, name, ts_ns, end_ns,
        coalesce(gap_before_ns((trace_id, step), ts_ns, end_ns, name) >= 0, FALSE) AS comes_again
    FROM marked
    WHERE over_ns IS NULL AND end_ns >= ts_ns
    QUALIFY
        form > 1
        OR name LIKE '% anew'
        OR NOT bool_or(name LIKE '% anew') OVER (PARTITION BY trace_id, step)
),

-- Number of earlier occurrences of each step number that do not overlap with this one.
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
