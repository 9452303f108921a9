-- GPU time by module and phase.
-- Columns self_… exclude submodules, and columns total_… include them. Work outside modules has named rows such as
-- (optimizer), so self_wall_ns adds up to the busy time of the device.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   depth   BIGINT = NULL    deeper modules count as part of their enclosing module at this depth; 0 is the top
--   class   VARCHAR = NULL   only modules of this class
--   layer   BIGINT = NULL    only modules of this layer
--   phase   VARCHAR = NULL   only this phase
--   steps   BOOLEAN = FALSE  only work in steps, if any are marked
--   rollup  BOOLEAN = FALSE  one row for all layers: model.layers.*.mlp
-- Columns:
--   rank INTEGER, device VARCHAR, phase VARCHAR, module_path VARCHAR, module_class VARCHAR
--   depth INTEGER
--   kernel_count     BIGINT   number of device events, excluding submodules
--   self_kernel_ns   BIGINT   sum of durations excluding submodules, ns
--   self_wall_ns BIGINT, total_wall_ns BIGINT
--   wall_pct         DOUBLE   total_wall_ns as a share of the device window, 0 to 100
--   total_kernel_ns  BIGINT   sum of durations including submodules, ns
--   layer            INTEGER  layer number; NULL outside layers and with rollup
--   rollup_path      VARCHAR  module_path with layer numbers replaced by *
--   parent_path      VARCHAR  rollup_path of the enclosing module; NULL at the top
--   source           VARCHAR  tk, nn.Module, range, or frame; NULL outside modules
--   in_step_ns       BIGINT   part of total_wall_ns from work launched in steps, ns
-- Keep:     rank, device, phase, module_path, kernel_count, self_wall_ns, total_wall_ns, wall_pct
-- View:
--   breakdown  totals=module_totals
-- Invariant: 0 <= self_wall_ns AND self_wall_ns <= total_wall_ns AND in_step_ns <= total_wall_ns
-- Invariant: self_wall_ns <= self_kernel_ns AND total_wall_ns <= total_kernel_ns
-- Invariant: (depth = 0) = (parent_path IS NULL)
-- Invariant: source IS NOT NULL OR module_path LIKE '(%)'

WITH own AS (
    SELECT
        trace_id, d.device, a.phase, a.module_id, a.row_name,
        count(*) FILTER (piece = 0) AS kernel_count,
        sum(d.dur_ns)::BIGINT AS kernel_ns,
        sum(d.wall_ns)::BIGINT AS wall_ns,
        coalesce(sum(d.wall_ns) FILTER (a.step IS NOT NULL), 0)::BIGINT AS in_step_ns
    FROM device_events AS d
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    WHERE ($phase IS NULL OR a.phase = $phase) AND (NOT $steps OR is_in_step(trace_id, a.step))
    GROUP BY trace_id, d.device, a.phase, a.module_id, a.row_name
),

-- A group is a phase on a device. The descendants of a module have consecutive positions, so totals
-- are differences of running sums.
work_group AS MATERIALIZED (
    SELECT trace_id, device, phase, row_number() OVER () AS part
    FROM own
    WHERE module_id IS NOT NULL
    GROUP BY trace_id, device, phase
),

placed AS (
    SELECT
        g.part, m.position,
        sum(o.kernel_count)::BIGINT AS kernel_count,
        sum(o.kernel_ns)::BIGINT AS kernel_ns,
        sum(o.wall_ns)::BIGINT AS wall_ns,
        sum(o.in_step_ns)::BIGINT AS in_step_ns
    FROM own AS o
    INNER JOIN module AS m USING (trace_id, module_id)
    INNER JOIN work_group AS g
        ON o.trace_id = g.trace_id AND o.device = g.device AND o.phase IS NOT DISTINCT FROM g.phase
    GROUP BY g.part, m.position
),

running AS (
    SELECT
        part, position,
        row_number() OVER until_here AS place,
        sum(kernel_count) OVER until_here AS kernel_count,
        sum(kernel_ns) OVER until_here AS kernel_ns,
        sum(wall_ns) OVER until_here AS wall_ns,
        sum(in_step_ns) OVER until_here AS in_step_ns
    FROM placed
    WINDOW until_here AS (PARTITION BY part ORDER BY position ROWS UNBOUNDED PRECEDING)
),

subtree AS (
    SELECT
        g.part, g.trace_id, g.device, g.phase, m.module_id, m.position,
        coalesce(m.depth = $depth, FALSE) AS is_deepest,
        (up_to.kernel_count - coalesce(before.kernel_count, 0))::BIGINT AS kernel_count,
        (up_to.kernel_ns - coalesce(before.kernel_ns, 0))::BIGINT AS kernel_ns,
        (up_to.wall_ns - coalesce(before.wall_ns, 0))::BIGINT AS wall_ns,
        (up_to.in_step_ns - coalesce(before.in_step_ns, 0))::BIGINT AS in_step_ns
    FROM module AS m
    INNER JOIN work_group AS g USING (trace_id)
    ASOF INNER JOIN running AS up_to
        ON g.part = up_to.part AND m.last_position >= up_to.position
    ASOF LEFT JOIN running AS before
        ON g.part = before.part AND m.position > before.position
    WHERE
        ($depth IS NULL OR m.depth <= $depth)
        AND ($class IS NULL OR m.class = $class)
        AND ($layer IS NULL OR m.layer = $layer)
        AND up_to.place > coalesce(before.place, 0)
),

shown AS (
    SELECT
        w.trace_id, w.device, w.phase,
        CASE WHEN $rollup THEN m.rollup_path ELSE m.path END AS module_path,
        m.class AS module_class, m.depth,
        CASE WHEN NOT $rollup THEN m.layer END AS layer,
        m.rollup_path, around.rollup_path AS parent_path, m.source,
        min(w.position) AS position,
        sum(CASE WHEN w.is_deepest THEN w.kernel_count ELSE coalesce(p.kernel_count, 0) END)::BIGINT
            AS kernel_count,
        sum(CASE WHEN w.is_deepest THEN w.kernel_ns ELSE coalesce(p.kernel_ns, 0) END)::BIGINT
            AS self_kernel_ns,
        sum(CASE WHEN w.is_deepest THEN w.wall_ns ELSE coalesce(p.wall_ns, 0) END)::BIGINT
            AS self_wall_ns,
        sum(w.kernel_ns)::BIGINT AS total_kernel_ns,
        sum(w.wall_ns)::BIGINT AS total_wall_ns,
        sum(w.in_step_ns)::BIGINT AS in_step_ns
    FROM subtree AS w
    INNER JOIN module AS m USING (trace_id, module_id)
    LEFT JOIN module AS around
        ON m.trace_id = around.trace_id AND m.parent_id = around.module_id
    LEFT JOIN placed AS p ON w.part = p.part AND w.position = p.position
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT
        trace_id, device, phase, row_name AS module_path,
        0 AS depth,
        row_name AS rollup_path, kernel_count, kernel_ns AS self_kernel_ns,
        wall_ns AS self_wall_ns, kernel_ns AS total_kernel_ns, wall_ns AS total_wall_ns, in_step_ns
    FROM own
    WHERE row_name IS NOT NULL AND $class IS NULL AND $layer IS NULL
)

SELECT
    w.rank, w.device, s.phase, s.module_path, s.module_class, s.depth, s.kernel_count,
    s.self_kernel_ns, s.self_wall_ns, s.total_wall_ns,
    100.0 * s.total_wall_ns / nullif(w.window_ns, 0) AS wall_pct,
    s.total_kernel_ns, s.layer, s.rollup_path, s.parent_path, s.source, s.in_step_ns
FROM shown AS s
INNER JOIN device_windows AS w USING (trace_id, device)
ORDER BY
    w.rank NULLS LAST,
    w.trace_id, w.device,
    phase_order(s.phase),
    s.position NULLS LAST,
    s.module_path
