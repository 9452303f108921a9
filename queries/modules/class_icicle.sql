-- Icicle chart of GPU time: kernel classes at the top, modules below.
-- The width of a class is its time in kernel_class_totals. The width of a module is its part of the class time,
-- including submodules.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   modules per class_icicle
-- Input:    module_classes
-- Columns:
--   class          VARCHAR  as in kernel_classes
--   kind           VARCHAR
--   module_path    VARCHAR  module path; NULL for a class
--   label          VARCHAR  module path relative to the enclosing module; or class
--   depth          INTEGER  level, from 0
--   from_ns        BIGINT   left edge, ns of busy time
--   to_ns          BIGINT   right edge, ns
--   total_wall_ns  BIGINT   busy time of the class in the module and its submodules, ns; overlap counts once
--   self_wall_ns   BIGINT   busy time of the class in the module without submodules, ns; overlap counts once
--   wall_pct       DOUBLE   total_wall_ns as a share of all windows, 0 to 100
--   kernel_count   BIGINT   number of device events of the class, excluding submodules
-- View:
--   page  largest=total_wall_ns
-- Invariant: to_ns - from_ns = total_wall_ns AND 0 <= self_wall_ns AND self_wall_ns <= total_wall_ns

WITH RECURSIVE tree AS MATERIALIZED (
    SELECT rollup_path, parent_path, depth, min(rowid) AS position, row_number() OVER () AS id
    FROM modules
    GROUP BY rollup_path, parent_path, depth
    QUALIFY row_number() OVER (PARTITION BY rollup_path ORDER BY position) = 1
),

own AS (
    SELECT
        class, kind, module_path,
        sum(kernel_count)::BIGINT AS kernel_count,
        sum(self_wall_ns)::BIGINT AS wall_ns
    FROM module_classes
    GROUP BY class, kind, module_path
),

-- Enclosing module of each module, 1, 2, 4, … levels up.
jump AS MATERIALIZED (
    SELECT 0 AS round, t.id, p.id AS outer_id
    FROM tree AS t
    INNER JOIN tree AS p ON t.parent_path = p.rollup_path AND t.depth = p.depth + 1
    UNION ALL
    SELECT j.round + 1 AS round, j.id, p.outer_id
    FROM jump AS j
    INNER JOIN jump AS p ON j.outer_id = p.id
),

-- Add the time of each module to its enclosing modules within 1, 2, 4, … levels.
counted AS (
    SELECT 0 AS round, o.class, o.kind, t.id, o.kernel_count, o.wall_ns AS self_wall_ns, o.wall_ns
    FROM own AS o
    INNER JOIN tree AS t ON o.module_path = t.rollup_path
    UNION ALL
    SELECT
        h.round, h.class, h.kind, h.id,
        sum(h.kernel_count)::BIGINT AS kernel_count,
        sum(h.self_wall_ns)::BIGINT AS self_wall_ns,
        sum(h.wall_ns)::BIGINT AS wall_ns
    FROM (
        SELECT round + 1 AS round, * EXCLUDE (round)
        FROM counted
        UNION ALL
        SELECT
            c.round + 1 AS round,
            c.class, c.kind, j.outer_id AS id,
            0 AS kernel_count,
            0 AS self_wall_ns,
            c.wall_ns
        FROM counted AS c
        INNER JOIN jump AS j USING (round, id)
    ) AS h
    WHERE h.round <= (SELECT max(round) + 1 FROM jump)
    GROUP BY h.round, h.class, h.kind, h.id
),

node AS (
    SELECT
        'classes' AS picture,
        {class: c.class, kind: c.kind} AS tree,
        t.rollup_path AS module_path,
        coalesce(t.parent_path, '') AS parent_path,
        t.depth + 1 AS depth,
        t.position, c.kernel_count, c.self_wall_ns, c.wall_ns AS total_wall_ns
    FROM counted AS c
    INNER JOIN tree AS t USING (id)
    WHERE c.round = (SELECT max(round) FROM counted)
    UNION ALL
    SELECT
        'classes' AS picture,
        {class: class, kind: kind} AS tree,
        '' AS module_path,
        NULL AS parent_path,
        0 AS depth,
        row_number() OVER (ORDER BY sum(wall_ns) DESC, class, kind) AS position,
        0 AS kernel_count,
        0 AS self_wall_ns,
        sum(wall_ns)::BIGINT AS total_wall_ns
    FROM own
    GROUP BY class, kind
)

SELECT
    tree.class, tree.kind,
    nullif(module_path, '') AS module_path,
    if(module_path = '', tree.class, icicle_label(module_path, parent_path)) AS label,
    depth, from_ns,
    from_ns + total_wall_ns AS to_ns,
    total_wall_ns, self_wall_ns,
    100.0 * total_wall_ns
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS wall_pct,
    kernel_count
FROM icicle('node')
ORDER BY from_ns, depth, position
