-- Where in a picture does each node of a tree lie, when every one is as wide as its time and lies within the one around it?
-- icicle('nodes') lays a forest side by side: a node reaches from from_ns to from_ns + total_wall_ns, and those inside of
-- it lie in the same part one level deeper, behind the time that is its own. Pictures do not mix, nor do the trees of one.
-- icicle_label says what the path of a node has beyond that of the node around it.
--
-- Kind:     function
-- Access:   private
-- Params:
--   nodes        VARCHAR  name of a relation with picture, tree, module_path ('' for the root of a tree), parent_path (NULL for what lies in nothing), depth, position, self_wall_ns, total_wall_ns
--   module_path  VARCHAR  path of the node
--   parent_path  VARCHAR  path of the node around it; '' for a root without a path
-- Columns:
--   from_ns  BIGINT  where it begins, ns from the left; behind the columns as given

CREATE OR REPLACE MACRO icicle_label(module_path, parent_path) AS
CASE
    WHEN parent_path <> '' AND starts_with(module_path, parent_path)
        THEN coalesce(nullif(ltrim(module_path[len(parent_path) + 1:], './'), ''), module_path)
    ELSE module_path
END;

CREATE OR REPLACE MACRO icicle(nodes) AS TABLE (
    WITH RECURSIVE beside AS MATERIALIZED (
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

    -- How far each lies behind the node around it; in each round the sums reach twice as far up.
    behind AS (
        SELECT
            0 AS round,
            b.id, p.id AS outer_id,
            b.before_ns + coalesce(p.self_wall_ns, 0) AS from_ns
        FROM beside AS b
        LEFT JOIN beside AS p
            ON
                b.picture = p.picture
                AND b.parent_path = p.module_path
                AND b.depth = p.depth + 1
                AND b.tree IS NOT DISTINCT FROM p.tree
        UNION ALL
        SELECT b.round + 1 AS round, b.id, p.outer_id, b.from_ns + coalesce(p.from_ns, 0) AS from_ns
        FROM behind AS b
        LEFT JOIN behind AS p ON b.outer_id = p.id
        WHERE b.round < (SELECT ceil(log2(max(depth) + 1)) FROM beside)
    )

    SELECT n.* EXCLUDE (id, before_ns), b.from_ns
    FROM beside AS n
    INNER JOIN behind AS b USING (id)
    WHERE b.round = (SELECT max(round) FROM behind)
);
