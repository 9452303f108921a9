-- Intervals of work per module, nested like the modules: module_intervals('walls', 'work').
-- An interval covers consecutive work of a module and its submodules in one phase, including gaps. Work outside modules
-- is named by its row_name, such as (optimizer). wall_ns adds up to total_wall_ns of analysis `modules`. Modules
-- below depth 100 have no intervals of their own.
--
-- Kind:     function
-- Params:
--   walls  VARCHAR  relation with the rows of wall_intervals('work')
--   work   VARCHAR  relation with the rows of attributed_events
-- Columns:
--   trace_id INTEGER, device VARCHAR, depth BIGINT, module_id INTEGER
--   name          VARCHAR  module name, or row_name
--   module_path   VARCHAR  module path, or row_name
--   module_class VARCHAR, phase VARCHAR
--   start_ns      BIGINT   start of the first device event, ns
--   end_ns        BIGINT   end of the last device event, ns
--   wall_ns       BIGINT   busy time including submodules, ns
--   self_wall_ns  BIGINT   busy time excluding submodules, ns

CREATE OR REPLACE MACRO module_intervals(walls, work) AS TABLE (
    WITH RECURSIVE busy AS (
        SELECT
            {trace_id: w.trace_id, device: w.device} AS part,
            {module_id: a.module_id, row_name: a.row_name, phase: a.phase} AS label,
            w.start_ns, w.end_ns,
            w.end_ns - w.start_ns AS busy_ns
        FROM query_table(walls) AS w
        INNER JOIN query_table(work) AS a
            ON w.trace_id = a.trace_id AND w.event_id = a.event_id AND w.piece = a.piece
    ),

    section AS (
        SELECT
            part.trace_id, part.device, run, label.module_id, label.row_name, label.phase, start_ns,
            end_ns, busy_ns AS wall_ns
        FROM interval_runs('busy')
    ),

    module_with_work AS (
        SELECT m.*
        FROM module AS m
        SEMI JOIN section AS s USING (trace_id, module_id)
    ),

    -- All enclosing modules of each module, including itself. Only enclosing modules down to depth
    -- 100 are listed. In tree order, the enclosing module at a depth is the latest module there.
    around AS (
        SELECT w.trace_id, w.module_id, o.module_id AS outer_id, o.parent_id
        FROM module_with_work AS w
        ASOF INNER JOIN module AS o
            ON
                w.trace_id = o.trace_id
                AND least(w.depth, 100) = o.depth
                AND w.position >= o.position
        UNION ALL
        SELECT a.trace_id, a.module_id, m.module_id AS outer_id, m.parent_id
        FROM around AS a
        INNER JOIN module AS m ON a.trace_id = m.trace_id AND a.parent_id = m.module_id
    ),

    placed AS (
        SELECT s.* EXCLUDE (row_name), a.outer_id, m.depth, m.name, m.path, m.class
        FROM section AS s
        INNER JOIN around AS a USING (trace_id, module_id)
        INNER JOIN module AS m ON a.trace_id = m.trace_id AND a.outer_id = m.module_id
        UNION ALL
        SELECT
            s.* EXCLUDE (row_name),
            NULL AS outer_id,
            0 AS depth,
            s.row_name AS name, s.row_name AS path, NULL AS class
        FROM section AS s
        WHERE s.module_id IS NULL
    ),

    grouped AS (
        SELECT
            *,
            run - row_number() OVER (
                PARTITION BY trace_id, device, outer_id, path, phase ORDER BY run
            ) AS island
        FROM placed
    )

    SELECT
        trace_id, device,
        any_value(depth) AS depth,
        outer_id AS module_id,
        any_value(name) AS name,
        path AS module_path,
        any_value(class) AS module_class,
        phase,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        sum(wall_ns)::BIGINT AS wall_ns,
        coalesce(sum(wall_ns) FILTER (module_id IS NOT DISTINCT FROM outer_id), 0)::BIGINT
            AS self_wall_ns
    FROM grouped
    GROUP BY trace_id, device, outer_id, path, phase, island
);
