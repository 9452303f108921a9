-- Icicle chart of GPU time by module, and by phase and module.
-- Widths are the times of module_totals. Children are below their module, to the right of its self time. In view
-- `modules`, top-level widths add up to the busy time of all devices. In view `phases`, the top level is phases with
-- their idle time, and widths add up to all device windows.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   modules per icicle
-- Input:    modules
-- Columns:
--   view          VARCHAR  modules, or phases
--   phase         VARCHAR  phase, or idle for the idle time of a phase; NULL in view `modules`
--   module_path   VARCHAR  module path; NULL for a phase and its idle time
--   label         VARCHAR  module path relative to the enclosing module; or phase
--   depth         INTEGER  level, from 0
--   from_ns       BIGINT   left edge, ns
--   to_ns         BIGINT   right edge, ns
--   total_wall_ns BIGINT, self_wall_ns BIGINT
--   wall_pct      DOUBLE   total_wall_ns as a share of all windows, 0 to 100
--   kernel_count  BIGINT   number of device events, excluding submodules
--   idle_ns       BIGINT   idle time while the host was in the phase, ns; 0 for modules
-- View:
--   page  largest=total_wall_ns
-- Invariant: to_ns - from_ns = total_wall_ns + idle_ns AND 0 <= self_wall_ns AND self_wall_ns <= total_wall_ns

WITH node AS (
    SELECT
        'modules' AS picture,
        NULL AS tree, rollup_path AS module_path, parent_path, depth,
        sum(kernel_count)::BIGINT AS kernel_count,
        sum(self_wall_ns)::BIGINT AS self_wall_ns,
        sum(total_wall_ns)::BIGINT AS total_wall_ns,
        0 AS idle_ns,
        min(rowid) AS position
    FROM modules
    GROUP BY rollup_path, parent_path, depth
    UNION ALL BY NAME
    SELECT
        'phases' AS picture,
        phase AS tree, rollup_path AS module_path,
        coalesce(parent_path, '') AS parent_path,
        depth + 1 AS depth,
        sum(kernel_count)::BIGINT AS kernel_count,
        sum(self_wall_ns)::BIGINT AS self_wall_ns,
        sum(total_wall_ns)::BIGINT AS total_wall_ns,
        0 AS idle_ns,
        min(rowid) AS position
    FROM modules
    GROUP BY phase, rollup_path, parent_path, depth
    UNION ALL BY NAME
    SELECT
        'phases' AS picture,
        phase AS tree,
        '' AS module_path,
        0 AS depth,
        0 AS kernel_count,
        0 AS self_wall_ns,
        sum(wall_ns + idle_ns)::BIGINT AS total_wall_ns,
        sum(idle_ns)::BIGINT AS idle_ns,
        min(rowid) AS position
    FROM phases
    GROUP BY phase
    UNION ALL BY NAME
    SELECT
        'phases' AS picture,
        phase AS tree,
        '' AS parent_path,
        1 AS depth,
        0 AS kernel_count,
        0 AS self_wall_ns,
        sum(idle_ns)::BIGINT AS total_wall_ns,
        sum(idle_ns)::BIGINT AS idle_ns,
        (SELECT max(rowid) + 1 FROM modules) AS position
    FROM phases
    GROUP BY phase
    HAVING sum(idle_ns) > 0
)

SELECT
    picture AS view,
    if(depth = 1 AND module_path IS NULL, 'idle', tree) AS phase,
    nullif(module_path, '') AS module_path,
    CASE module_path
        WHEN '' THEN tree ELSE coalesce(icicle_label(module_path, parent_path), 'idle')
    END AS label,
    depth, from_ns,
    from_ns + total_wall_ns AS to_ns,
    total_wall_ns - idle_ns AS total_wall_ns,
    self_wall_ns,
    100.0 * (total_wall_ns - idle_ns)
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS wall_pct,
    kernel_count, idle_ns
FROM icicle('node')
ORDER BY picture, from_ns, depth, position
