-- Marked steps of training or serving, on the host.
-- Sources, in order of preference: tk/step/N of tracekit's collectors, ranges that user rules define as steps,
-- ProfilerStep#N of torch.profiler, and the time until the end of Optimizer.step. Optimizers with no forward and
-- backward pass between them end the same step. Range "tk/step/N anew" restarts a step after an evaluation: earlier
-- ranges of the step are ignored. Range "tk/step/N ended T ns ago" sets an earlier end. If step numbers recur, steps
-- are renumbered in time order.
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

-- If optimizers are nested, the outer one counts.
outer_optimizer AS (
    SELECT
        trace_id, name,
        latest_end_before_ns(trace_id, ts_ns, end_ns, name) AS before_ns,
        end_ns
    FROM step_range
    WHERE form = 4
    QUALIFY ts_ns >= before_ns OR before_ns IS NULL
),

numbered_op AS (
    SELECT
        trace_id, pid, tid, event_id, ts_ns,
        ts_ns + dur_ns AS end_ns,
        contains(name, 'GraphLaunch') AS is_replay,
        starts_with(name, 'autograd::engine::') OR coalesce(forward_thread, 0) > 0 AS is_node
    FROM event
    SEMI JOIN outer_optimizer USING (trace_id)
    WHERE
        is_op(category) AND (sequence_number IS NOT NULL OR starts_with(name, 'autograd::engine::'))
        OR is_launch_call(category) AND contains(name, 'GraphLaunch')
),

-- Forward ops outside autograd nodes (inside a node, a checkpoint repeats them). A graph launch may
-- contain both passes.
forward_op AS (
    SELECT trace_id, ts_ns
    FROM numbered_op
    QUALIFY
        is_replay
        OR NOT is_node
        AND coalesce(
            ts_ns >= max(end_ns) FILTER (is_node) OVER (
                PARTITION BY trace_id, pid, tid ORDER BY ts_ns, event_id ROWS UNBOUNDED PRECEDING
            ),
            TRUE
        )
),

backward_pass AS (
    SELECT n.trace_id, n.ts_ns, f.ts_ns AS forward_ns
    FROM numbered_op AS n
    ASOF INNER JOIN forward_op AS f ON n.trace_id = f.trace_id AND n.ts_ns >= f.ts_ns
    WHERE n.is_node OR n.is_replay
),

-- Optimizers that run in the hooks of one backward pass or after it end the same step. An optimizer ends a new step
-- only if a forward pass and its backward pass ran since the previous optimizer.
begun_step AS (
    SELECT
        o.trace_id, o.name, o.end_ns,
        count_if(coalesce(b.forward_ns >= o.before_ns, TRUE)) OVER (
            PARTITION BY o.trace_id ORDER BY o.end_ns, o.name
        ) AS step
    FROM outer_optimizer AS o
    ASOF LEFT JOIN backward_pass AS b ON o.trace_id = b.trace_id AND o.end_ns >= b.ts_ns
),

updated AS (
    SELECT
        trace_id, step,
        arg_max(name, end_ns) AS name,
        lag(max(end_ns)) OVER (PARTITION BY trace_id ORDER BY step) AS before_ns,
        max(end_ns) AS end_ns
    FROM begun_step
    GROUP BY trace_id, step
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
        u.step,
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

-- Number of earlier ranges with the same step number that do not overlap with this range.
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
