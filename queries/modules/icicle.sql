-- Positions of tree nodes in an icicle chart: icicle('nodes').
-- A chart (`picture`) consists of trees next to each other. A node spans from_ns to from_ns + total_wall_ns. Its own
-- time is on the left, followed by its children, one level below. icicle_label returns a path relative to the parent.
--
-- Kind:     function
-- Access:   private
-- Params:
--   nodes        VARCHAR  relation with picture, tree, module_path ('' for a root without a path), parent_path (NULL for a root), depth, position, self_wall_ns, total_wall_ns
--   module_path  VARCHAR  path of the node
--   parent_path  VARCHAR  path of the parent; NULL for a root, '' below a root without a path
-- Columns:
--   from_ns BIGINT

CREATE OR REPLACE MACRO icicle_label(module_path, parent_path) AS
CASE
    WHEN parent_path <> '' AND starts_with(module_path, parent_path)
        THEN coalesce(nullif(ltrim(module_path[len(parent_path) + 1:], './'), ''), module_path)
    ELSE module_path
END;

CREATE OR REPLACE MACRO icicle(nodes) AS TABLE (
    WITH RECURSIVE adjacent AS MATERIALIZED (
        SELECT
            *,
            row_number() OVER () AS id,
            coalesce(sum(total_wall_ns) OVER (
                PARTITION BY picture, depth, parent_path, if(depth = 0, NULL, tree)
                ORDER BY position
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0)::BIGINT AS before_ns
        FROM query_table(nodes)
    ),

    -- Offset from the enclosing node. Each round doubles the number of levels covered.
    behind AS (
        SELECT
            0 AS round,
            b.id, p.id AS outer_id,
            b.before_ns + coalesce(p.self_wall_ns, 0) AS from_ns
        FROM adjacent AS b
        LEFT JOIN adjacent AS p
            ON
                b.picture = p.picture
                AND b.parent_path = p.module_path
                AND b.depth = p.depth + 1
                AND b.tree IS NOT DISTINCT FROM p.tree
        UNION ALL
        SELECT b.round + 1 AS round, b.id, p.outer_id, b.from_ns + coalesce(p.from_ns, 0) AS from_ns
        FROM behind AS b
        LEFT JOIN behind AS p ON b.outer_id = p.id
        WHERE b.round < (SELECT ceil(log2(max(depth) + 1)) FROM adjacent)
    )

    SELECT n.* EXCLUDE (id, before_ns), b.from_ns
    FROM adjacent AS n
    INNER JOIN behind AS b USING (id)
    WHERE b.round = (SELECT max(round) FROM behind)
);
